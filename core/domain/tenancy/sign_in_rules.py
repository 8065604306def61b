"""Sign-in rules of an organization: what it requires of its members, and what it allows applications and agents."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from core.domain.errors import BadRequest, ReauthenticationRequired, SecondFactorRequired
from core.domain.formats import Json, as_json
from core.domain.identifiers import OrganizationId
from core.domain.identity.accounts import SHORTEST_PASSWORD
from core.domain.identity.devices import DEFAULT_TRUST_DAYS, LONGEST_TRUST_DAYS
from core.domain.identity.passwords import LONGEST_LEAST, BreachRule
from core.domain.identity.registering import RegistrationPolicy, RegistrationRule
from core.domain.identity.session_limits import NOBODY_REACHED, SessionLimits, SessionReach, require_session_bounds, require_within
from core.domain.mail import Email
from core.domain.outbound import MetadataClients, RegisteredClients, metadata_hosts
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Checks, Unchanged, checked
from core.frozen import Frozen, replace, values_of

DEFAULT_GRACE_DAYS: Final = 7
LONGEST_GRACE_DAYS: Final = 90
MOST_DOMAINS: Final = 50


class MfaPolicy(StrEnum):
    """Whether members need MFA."""

    OPTIONAL = "optional"
    REQUIRED = "required"


class AdminFactor(StrEnum):
    """What administrators need to sign in, beyond what all members need. Administrators are members with the role owner or admin, directly
    or through a team.
    """

    OPTIONAL = "optional"
    """Nothing more."""
    SECOND_FACTOR = "second_factor"
    PASSKEY = "passkey"
    """A second factor, and a passkey."""


class AllFactor(StrEnum):
    """What members need to sign in beyond MFA: MFA, and a passkey."""

    OPTIONAL = "optional"
    """Nothing more."""
    PASSKEY = "passkey"
    """Everybody needs it."""
    ROLE_PASSKEY = "role_passkey"
    """Those need it who have a certain role of an application."""


class AgentRule(StrEnum):
    """Whether agents may act for people at the organization's APIs, for members and others."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"


class AfarRule(StrEnum):
    """Whether applications of the organization may request approval from confirmed members on another device (CIBA)."""

    OFF = "off"
    ON = "on"


class SignInRules(Frozen, kw_only=True):
    """They state whether members need MFA, how long a device is trusted without it, how long sessions last, which email addresses get
    invitations, and whether members may sign in by magic link. They also state which unregistered applications may sign users in here,
    whether agents may act for users, and whether applications may use backchannel authentication.
    """

    mfa_required_since: datetime | None = None
    """None when members need no second factor."""
    mfa_grace_days: int = DEFAULT_GRACE_DAYS
    """How long a member has to set up a second factor. The time begins with the rule or with joining, whichever is later."""
    device_trust_days: int = DEFAULT_TRUST_DAYS
    session_hours: int | None = None
    """The lifetime of sessions after the sign-in. None for the installation's own limit."""
    session_idle_minutes: int | None = None
    """How long a session may rest. None for the installation's own limit."""
    most_sessions: int | None = None
    """How many sign-ins of one person may be open at once. None for any number."""
    invitation_domains: tuple[str, ...] = ()
    """The domains in the form in which addresses compare. Empty when invitations may go to any address."""
    sign_in_links: bool = True
    """Whether members may sign in by magic link."""
    admin_factor: AdminFactor = AdminFactor.OPTIONAL
    admin_required_since: datetime | None = None
    """The beginning of what is asked of administrators. None if nothing more is."""
    all_factor: AllFactor = AllFactor.OPTIONAL
    all_factor_role: str | None = None
    """The role, by the slugs of its application and its own: `billing/approver`. None for another demand, and if the role has ended: then
    the demand reaches nobody.
    """
    all_required_since: datetime | None = None
    """The beginning of what is asked of these members. None if nothing is."""
    passkey_offers: bool = True
    """Whether members are offered a passkey after a sign-in by a password."""
    metadata_clients: MetadataClients = MetadataClients.OFF
    """The applications that describe themselves in a document, as far as an API lets them in as well."""
    metadata_hosts: tuple[str, ...] = ()
    """The hosts of these documents, sorted. Open clients may send people there."""
    registered_clients: RegisteredClients = RegisteredClients.OFF
    """The programs that register themselves, as far as an API lets them in as well."""
    agents: AgentRule = AgentRule.ALLOWED
    agents_since: datetime | None = None
    """What people have allowed agents before counts no more. None when all of it counts."""
    afar_since: datetime | None = None
    """When the organization last let its applications ask from afar: requests of before are over. None when it lets them not."""
    shortest_password: int | None = None
    """How many characters members' next passwords must have. None for what the installation asks for."""
    breached_at_sign_in: BreachRule | None = None
    """What members' sign-ins with a stolen password do, at least. None for what the installation does."""
    registration_policy: RegistrationPolicy = RegistrationPolicy.ANYBODY
    """Who can register on the organization's pages, within the limits of the installation."""
    registration_domains: tuple[str, ...] = ()
    """The domains of this policy, in the form in which addresses compare."""

    def require_fitting(self) -> None:
        """Raises `BadRequest` for rules that nobody could fit."""
        RegistrationRule(policy=self.registration_policy, domains=self.registration_domains).require_fitting()

    def require_whole_demand(self, change: "SignInRulesChange") -> None:
        """Raises `BadRequest` when a demand on those with a role names none, and when another demand names one."""
        if change.all_factor is None and isinstance(change.all_factor_role, Unchanged):
            return
        if self.all_factor is AllFactor.ROLE_PASSKEY and self.all_factor_role is None:
            raise BadRequest("all_factor_role: specify the role, such as billing/approver", words="all_factor_role_needed")
        if self.all_factor is not AllFactor.ROLE_PASSKEY and not isinstance(change.all_factor_role, Unchanged | None):
            raise BadRequest("all_factor_role: only with all_factor role_passkey", words="all_factor_role_unneeded")

    @property
    def session_limits(self) -> SessionLimits:
        return SessionLimits(self.session_hours, self.session_idle_minutes, self.most_sessions)

    @property
    def afar_requests(self) -> AfarRule:
        return AfarRule.OFF if self.afar_since is None else AfarRule.ON

    @property
    def mfa_policy(self) -> MfaPolicy:
        return MfaPolicy.OPTIONAL if self.mfa_required_since is None else MfaPolicy.REQUIRED


_STRICTNESS: Final = (AdminFactor.OPTIONAL, AdminFactor.SECOND_FACTOR, AdminFactor.PASSKEY)


class SignInRulesChange(Frozen, kw_only=True):
    """A change of the rules. Fields that are None or UNCHANGED keep their value. None sets the installation's
    own for `session_hours`, `session_idle_minutes`, `most_sessions`, `shortest_password` and `breached_at_sign_in`, and no role for
    `all_factor_role`.
    """

    mfa_policy: MfaPolicy | None = None
    mfa_grace_days: int | None = None
    device_trust_days: int | None = None
    session_hours: int | Unchanged | None = UNCHANGED
    session_idle_minutes: int | Unchanged | None = UNCHANGED
    most_sessions: int | Unchanged | None = UNCHANGED
    invitation_domains: Sequence[str] | None = None
    sign_in_links: bool | None = None
    admin_factor: AdminFactor | None = None
    all_factor: AllFactor | None = None
    all_factor_role: str | Unchanged | None = UNCHANGED
    passkey_offers: bool | None = None
    metadata_clients: MetadataClients | None = None
    metadata_hosts: Sequence[str] | None = None
    registered_clients: RegisteredClients | None = None
    agents: AgentRule | None = None
    afar_requests: AfarRule | None = None
    shortest_password: int | Unchanged | None = UNCHANGED
    breached_at_sign_in: BreachRule | Unchanged | None = UNCHANGED
    registration_policy: RegistrationPolicy | None = None
    registration_domains: Sequence[str] | None = None

    def require_allowed(self) -> None:
        """Raises `BadRequest`, with the name of the field."""
        require_within("mfa_grace_days", self.mfa_grace_days, 0, LONGEST_GRACE_DAYS)
        require_within("device_trust_days", self.device_trust_days, 0, LONGEST_TRUST_DAYS)
        require_session_bounds(*(None if isinstance(one, Unchanged) else one for one in self._of_sessions))
        if not isinstance(self.shortest_password, Unchanged):
            require_within("shortest_password", self.shortest_password, SHORTEST_PASSWORD, LONGEST_LEAST)
        for field, domains in (("invitation_domains", self.invitation_domains), ("registration_domains", self.registration_domains)):
            if domains is not None and len(domains) > MOST_DOMAINS:
                raise BadRequest(f"{field}: at most {MOST_DOMAINS}", words="field_list", values={"most": MOST_DOMAINS})
        if self == SignInRulesChange():
            raise BadRequest("Send at least one of the rules", words="nothing_to_change")

    @property
    def _of_sessions(self) -> tuple[int | Unchanged | None, int | Unchanged | None, int | Unchanged | None]:
        return self.session_hours, self.session_idle_minutes, self.most_sessions

    def applied(self, before: SignInRules, now: datetime) -> SignInRules:
        """The rules after the change. A rule that already stands keeps its beginning, and so everybody keeps their grace period."""
        since = before.mfa_required_since
        if self.mfa_policy is MfaPolicy.OPTIONAL:
            since = None
        elif self.mfa_policy is MfaPolicy.REQUIRED and since is None:
            since = now
        said = {name: value for name, value in values_of(self).items() if name not in _BEGINS and value is not getattr(_NOTHING, name)}
        return replace(
            before,
            mfa_required_since=since,
            **(said | checked(said, _STORED)),
            **self._of_administrators(before, now),
            **self._of_everybody(before, now),
            **self._of_agents(before, now),
            **self._of_backchannel(before, now),
        )

    def _of_administrators(self, before: SignInRules, now: datetime) -> Mapping[str, Any]:
        """A demand that grows begins anew, so that administrators have time for it."""
        if self.admin_factor is None or self.admin_factor is before.admin_factor:
            return {}
        grows = _STRICTNESS.index(self.admin_factor) > _STRICTNESS.index(before.admin_factor)
        since = None if self.admin_factor is AdminFactor.OPTIONAL else now if grows else before.admin_required_since
        return {"admin_factor": self.admin_factor, "admin_required_since": since}

    def _of_everybody(self, before: SignInRules, now: datetime) -> Mapping[str, Any]:
        """A demand that reaches others begins anew. The one that stands keeps its beginning, and so do those whom a smaller one reaches."""
        factor = before.all_factor if self.all_factor is None else self.all_factor
        role = before.all_factor_role if isinstance(self.all_factor_role, Unchanged) else self.all_factor_role
        if factor is not AllFactor.ROLE_PASSKEY and isinstance(self.all_factor_role, Unchanged):
            role = None
        if (factor, role) == (before.all_factor, before.all_factor_role):
            return {}
        shrinks = before.all_factor is AllFactor.PASSKEY
        since = None if factor is AllFactor.OPTIONAL else before.all_required_since if shrinks else now
        return {"all_factor": factor, "all_factor_role": role, "all_required_since": since}

    def _of_agents(self, before: SignInRules, now: datetime) -> Mapping[str, Any]:
        """A prohibition ends what agents were allowed before it, also when it is over."""
        if self.agents is None or self.agents is before.agents:
            return {}
        return {"agents": self.agents, **({"agents_since": now} if self.agents is AgentRule.ALLOWED else {})}

    def _of_backchannel(self, before: SignInRules, now: datetime) -> Mapping[str, Any]:
        """What waits ends when the rule is turned off, also when it is on again."""
        if self.afar_requests is None or self.afar_requests is before.afar_requests:
            return {}
        return {"afar_since": now if self.afar_requests is AfarRule.ON else None}


class RulesEffects(Frozen, kw_only=True):
    """The people, sessions and invitations that a change of the rules would reach. Each is counted up to a limit."""

    without_second_factor: int
    """Members without a second factor, where the change makes the organization require one, or shortens the grace period."""
    due: datetime | None
    """The end of the grace period of those who are members today. None where nothing changes for them."""
    uninvitable: int
    """Pending invitations to addresses outside the domains. They stay valid: the domains are about new invitations."""
    administrators_without: int = 0
    """Administrators without what the change asks of them."""
    administrators_due: datetime | None = None
    """The end of their grace period. None where nothing changes for them."""
    admin_factor: AdminFactor = AdminFactor.OPTIONAL
    """What the change asks of them."""
    members_without: int = 0
    """Members without the passkey or the second factor that the change asks of everybody, or of those with a role."""
    members_due: datetime | None = None
    """The end of their grace period. None where nothing changes for them."""
    sessions: SessionReach = NOBODY_REACHED


class RulesAsked(Frozen, kw_only=True):
    """The questions about a change of the rules that matter: the others are about nothing that changes."""

    factor: bool
    domains: tuple[str, ...] | None
    admin_factor: AdminFactor | None = None
    all_factor: AllFactor | None = None
    all_factor_role: str | None = None


def asked_of(before: SignInRules, after: SignInRules) -> RulesAsked:
    requires = after.mfa_required_since is not None
    sooner = before.mfa_required_since is None or after.mfa_grace_days < before.mfa_grace_days
    narrower = bool(after.invitation_domains) and not (
        before.invitation_domains and {*before.invitation_domains} <= {*after.invitation_domains}
    )
    return RulesAsked(
        factor=requires and sooner,
        domains=after.invitation_domains if narrower else None,
        admin_factor=after.admin_factor if _asks_administrators(before, after) else None,
        all_factor=after.all_factor if _asks_members(before, after) else None,
        all_factor_role=after.all_factor_role,
    )


def _asks_administrators(before: SignInRules, after: SignInRules) -> bool:
    asks = after.admin_factor is not AdminFactor.OPTIONAL
    return asks and (after.admin_required_since != before.admin_required_since or after.mfa_grace_days < before.mfa_grace_days)


def _asks_members(before: SignInRules, after: SignInRules) -> bool:
    asks = after.all_factor is not AllFactor.OPTIONAL
    return asks and (after.all_required_since != before.all_required_since or after.mfa_grace_days < before.mfa_grace_days)


def require_of_oneself(before: SignInRules, after: SignInRules, *, has_second_factor: bool, has_passkey: bool) -> None:
    """Whoever asks for something has it. Otherwise they would lock themselves out. Raises `SecondFactorRequired`."""
    grows = after.admin_required_since is not None and after.admin_required_since != before.admin_required_since
    if after.mfa_required_since is not None and before.mfa_required_since is None and not has_second_factor:
        raise SecondFactorRequired("mfa_policy: set up a second factor of your own first", words="mfa_required_of_you")
    if grows and not has_second_factor:
        raise SecondFactorRequired("admin_factor: set up a second factor of your own first", words="mfa_required_of_you")
    if grows and after.admin_factor is AdminFactor.PASSKEY and not has_passkey:
        raise SecondFactorRequired("admin_factor: add a passkey of your own first", words="passkey_required_of_you")
    if after.all_required_since is None or after.all_required_since == before.all_required_since:
        return
    if not has_second_factor:
        raise SecondFactorRequired("all_factor: set up a second factor of your own first", words="mfa_required_of_you")
    if not has_passkey:
        raise SecondFactorRequired("all_factor: add a passkey of your own first", words="passkey_required_of_you")


def due_after(since: datetime | None, after: SignInRules) -> datetime | None:
    """The end of the grace period of those who are members today, for a demand that began at that time."""
    return None if since is None else since + timedelta(days=after.mfa_grace_days)


def grace_is_over(due: datetime | None, now: datetime) -> bool:
    """`due` is the end of the grace period of a member without a second factor. It is None when the organization asks nothing of the
    member. SQL statements use the fragment of the same name in `adapters/postgres/identity/factors/mfa.py`.
    """
    return due is not None and due <= now


def require_second_factor(due: datetime | None, now: datetime) -> None:
    """Raises `SecondFactorRequired` once the grace period is over."""
    if grace_is_over(due, now):
        raise SecondFactorRequired


def outlasted(lifetime: timedelta) -> ReauthenticationRequired:
    """Asks for another sign-in, because the session is too old for this organization; elsewhere it stays valid. A code of the second factor
    is not enough: enabling a second factor is a proof too, so the thief of a session could keep the session by enabling one.
    """
    message = "This organization requires a more recent sign-in: send your password to POST /api/auth/reauthenticate, or sign in again"
    return ReauthenticationRequired(message, max_age=lifetime, words="password_needed_again")


def is_invitable(email: Email, domains: Sequence[str]) -> bool:
    """A domain in the list allows no subdomains."""
    return not domains or email.domain in domains


def session_lifetime(hours: int | None) -> timedelta | None:
    return None if hours is None else timedelta(hours=hours)


def sign_in_rules_updated(organization: OrganizationId, before: SignInRules, after: SignInRules, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details = differences(_facts(before), _facts(after))
    target = Target("organization", str(organization))
    return Event("organization.sign_in_rules.updated", actor, target, organization, details)


_NOTHING: Final = SignInRulesChange()
_BEGINS: Final = frozenset({"mfa_policy", "admin_factor", "all_factor", "all_factor_role", "agents", "afar_requests"})
"""Demands whose change has a moment. Their methods say which."""
_STORED: Final[Checks] = {"invitation_domains": tuple, "metadata_hosts": metadata_hosts, "registration_domains": tuple}
_NOT_SAID: Final = frozenset({"mfa_required_since", "admin_required_since", "all_required_since", "agents_since", "afar_since"})
"""Beginnings of what is asked. An event names the rule itself."""


def _facts(rules: SignInRules) -> Mapping[str, Json]:
    """Each rule by its name in the API."""
    said = {name: value for name, value in values_of(rules).items() if name not in _NOT_SAID}
    hours = {"session_lifetime_hours": said.pop("session_hours")}
    return {
        name: as_json(value)
        for name, value in ({"mfa_policy": rules.mfa_policy, "afar_requests": rules.afar_requests} | said | hours).items()
    }
