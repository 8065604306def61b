"""What the sign-in rules say now, in sentences: those of each card of the page.

Each field has a part in a sentence, whatever the other fields say. So two sets of rules that differ read differently.
"""

from collections.abc import Iterator

from core.domain.identity.registering import RegistrationPolicy
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.tenancy.sign_in_rules import AdminFactor, AllFactor, MfaPolicy
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import lasting
from entrypoints.http.routes.tenancy.sign_in_rules import SignInRulesRecord
from entrypoints.settings import Settings
from ports.texts import Text


class InForce(Frozen):
    """What counts where the organization sets nothing: the settings of the installation, in words."""

    lifetime: str
    idle: str
    most: str
    shortest: str
    breached: str


def in_force(text: Text, settings: Settings) -> InForce:
    most = settings.most_sessions
    return InForce(
        lifetime=lasting(settings.session_lifetime, text),
        idle=lasting(settings.session_idle, text),
        most=text("console.in_force.no_limit") if most is None else text("console.in_force.most", count=most),
        shortest=text("console.in_force.shortest", count=settings.password_length),
        breached=text(f"console.in_force.breached_{settings.breached_at_sign_in}"),
    )


def second_step(text: Text, rules: SignInRulesRecord, _in_force: InForce) -> Iterator[str]:
    demands = [*_of_members(text, rules), *_of_administrators(text, rules)]
    yield from demands
    if rules.all_factor is AllFactor.ROLE_PASSKEY and rules.all_factor_role is None:
        yield _said(text, "role_ended")
    if not _reaches_all(rules):
        yield _said(text, "others_free" if demands else "nobody")
    grace = "grace" if demands else "grace_would"
    yield _counted(text, grace, rules.mfa_grace_days or None)
    yield _counted(text, "trust", rules.device_trust_days or None)


def _of_members(text: Text, rules: SignInRulesRecord) -> Iterator[str]:
    on_top = "_on_top" if rules.mfa_policy is MfaPolicy.REQUIRED else ""
    if on_top:
        yield _said(text, "members", since=rules.mfa_required_since)
    if rules.all_factor is AllFactor.PASSKEY:
        yield _said(text, f"members_passkey{on_top}", since=rules.all_required_since)
    if rules.all_factor is AllFactor.ROLE_PASSKEY and rules.all_factor_role is not None:
        yield _said(text, f"role_passkey{on_top}", role=rules.all_factor_role, since=rules.all_required_since)


def _of_administrators(text: Text, rules: SignInRulesRecord) -> Iterator[str]:
    """A demand that members meet already says so: it counts on when theirs ends."""
    if rules.admin_factor is AdminFactor.SECOND_FACTOR:
        yield _said(text, "admins_second_step_too" if _reaches_all(rules) else "admins_second_step", since=rules.admin_required_since)
    if rules.admin_factor is AdminFactor.PASSKEY:
        beside = "_too" if rules.all_factor is AllFactor.PASSKEY else "_on_top" if _reaches_all(rules) else ""
        yield _said(text, f"admins_passkey{beside}", since=rules.admin_required_since)


def _reaches_all(rules: SignInRulesRecord) -> bool:
    """Whether all members need a second step."""
    return rules.mfa_policy is MfaPolicy.REQUIRED or rules.all_factor is AllFactor.PASSKEY


def sessions(text: Text, rules: SignInRulesRecord, in_force: InForce) -> Iterator[str]:
    yield _counted(text, "hours", rules.session_lifetime_hours, in_force.lifetime)
    yield _counted(text, "idle", rules.session_idle_minutes, in_force.idle)
    yield _counted(text, "most", rules.most_sessions, in_force.most)


def passwords(text: Text, rules: SignInRulesRecord, in_force: InForce) -> Iterator[str]:
    yield _counted(text, "shortest", rules.shortest_password, in_force.shortest)
    breached = rules.breached_at_sign_in
    yield _said(text, "breached_unset" if breached is None else f"breached_{breached.value}", in_force=in_force.breached)
    yield _said(text, "offers" if rules.passkey_offers else "offers_none")
    yield _said(text, "links" if rules.sign_in_links else "links_none")


def registration(text: Text, rules: SignInRulesRecord, _in_force: InForce) -> Iterator[str]:
    policy, domains = rules.registration_policy, text.listed(rules.registration_domains)
    names_domains = policy in {RegistrationPolicy.DOMAINS, RegistrationPolicy.EXCEPT_DOMAINS}
    if domains and names_domains:
        yield _said(text, f"register_{policy.value}", domains=domains)
    else:
        yield _said(text, "register_except_nothing" if names_domains else f"register_{policy.value}")
    if domains and not names_domains:
        yield _said(text, "register_kept", domains=domains)
    invited = text.listed(rules.invitation_domains)
    yield _said(text, "invite_domains", domains=invited) if invited else _said(text, "invite_any")


def programs(text: Text, rules: SignInRulesRecord, _in_force: InForce) -> Iterator[str]:
    yield _said(text, f"agents_{rules.agents.value}")
    yield _said(text, f"afar_{rules.afar_requests.value}")
    hosts, clients = text.listed(rules.metadata_hosts), rules.metadata_clients
    named, registered = clients is MetadataClients.NAMED, rules.registered_clients is RegisteredClients.ON
    if named and hosts:
        yield _said(text, "documents_named", hosts=hosts)
    else:
        yield _said(text, "documents_unnamed" if named else f"documents_{clients.value}")
    if registered and hosts:
        yield _said(text, "registered_hosts", hosts=hosts)
    else:
        yield _said(text, "registered_on" if registered else "registered_off")
    if hosts and not (named or registered):
        yield _said(text, "hosts_kept", hosts=hosts)


def _said(text: Text, name: str, **values: object) -> str:
    return text(f"console.rules_say.{name}", **values)


def _counted(text: Text, name: str, count: int | None, in_force: str = "") -> str:
    return _said(text, f"{name}_none", in_force=in_force) if count is None else _said(text, name, count=count)
