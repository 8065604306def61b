"""Entries of an audit log as people say them: a sentence, the page of the thing, and what was before and after."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from core.domain.claims import ClaimPlace, ClaimSource
from core.domain.identity.realms import LoginPolicy
from core.domain.record.event_types import EVENT_TYPES
from core.domain.record.events import TargetType
from core.domain.services.plans import priced
from core.domain.services.services import AssertionAudience, SecurityProfile, ServiceType, SignInPolicy
from core.domain.tenancy.domains import JoinPolicy
from core.domain.tenancy.hooks import HookSilence, HookStands
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import MfaPolicy
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import in_words, role_in_words
from entrypoints.http.console.kit.navigation import address
from entrypoints.http.console.organization.events import event_in_words
from entrypoints.http.console.organization.organization_tabs import (
    APIS,
    APPLICATIONS,
    DIRECTORIES,
    EVENTS,
    HOME,
    HOOKS,
    KEYS,
    PEOPLE,
    PROPOSALS,
    SETTINGS,
    SETUP_LINKS,
    TRUSTED_ISSUERS,
)
from entrypoints.http.routes.federation.scim_settings import list_scim_tokens
from entrypoints.http.routes.record.audit import AuditEntryRecord, LoggedAnywhere, key_of
from entrypoints.http.routes.services.end_users import get_end_user
from entrypoints.http.routes.services.services import get_service
from entrypoints.http.routes.tenancy.branding import get_branding
from entrypoints.http.routes.tenancy.management_keys import list_management_keys
from entrypoints.http.routes.tenancy.upstream_providers import list_upstream_providers
from entrypoints.http.routes.tenancy.webhooks import list_webhooks
from ports.texts import Text

_OLD, _NEW, _ADDED, _REMOVED = "old_", "new_", "_added", "_removed"
_PRICE: Final = "price_cents"
# The texts of the forms, by the beginning of the action. Forms that have no texts of their own use those that all forms share.
_FORMS: Final[Sequence[tuple[str, str]]] = (
    ("resource_server.", "console.apis"),
    ("service.user_keys.", "console.user_keys"),
    ("service.proxy.", "console.proxy"),
    ("service.provisioning.", "console.people_there"),
    ("signal_stream.", "console.signal_streams"),
    ("hook.", "console.hook"),
    ("platform.hook.", "console.hook"),
    ("trusted_issuer.", "console.trusted_issuers"),
    ("terms.", "console.terms"),
)
_SHARED: Final = "console.field"
# Parts that entries call otherwise than forms do.
_OTHERWISE: Final[Mapping[str, str]] = {
    "owner_user_id": f"{_SHARED}.owner",
    "secret_kind": f"{_SHARED}.client_secret",
    "key_ids": f"{_SHARED}.jwks",
    "backchannel_logout_host": f"{_SHARED}.backchannel_logout_uri",
    "claim": f"{_SHARED}.name",
    "current_period_end": f"{_SHARED}.ends_at",
    "signing_certificates_sha256": f"{_SHARED}.certificates_sha256",
    "acs_endpoints": f"{_SHARED}.acs_url",
    "risk_policies": "console.tab.risk",
    "issues_assertions": "console.assertions.issues",
    "assertion_issuer": "console.assertions.issuer",
    "assertion_jwks_uri": "console.assertions.jwks_uri",
    "assertion_keys": "console.assertions.jwks",
    "assertion_subject": "console.assertions.subject",
}
# The parts whose values are words of ours, with these words. An old entry may have a word that is gone, and says it as it is.
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "mfa_policy": frozenset(MfaPolicy),
    "login_policy": frozenset(LoginPolicy),
    "join_policy": frozenset(JoinPolicy),
    "service_type": frozenset(ServiceType),
    "sign_in_policy": frozenset(SignInPolicy),
    "id_token_alg": frozenset(TokenAlgorithm),
    "access_token_alg": frozenset(TokenAlgorithm),
    "assertion_audience": frozenset(AssertionAudience),
    "profile": frozenset(SecurityProfile),
    "source": frozenset(ClaimSource),
    "into": frozenset(ClaimPlace),
    "permissions": frozenset(Capability),
    "kind": frozenset(("oidc", "saml")),
    "silence": frozenset(HookSilence),
    "stands": frozenset(HookStands),
}
# What is said in the words of another field.
_FIELDS: Final[Mapping[str, str]] = {"permissions": "capabilities"}
_NO_WORDS: Final = frozenset[str]()


class ChangedPart(Frozen):
    """A part of a thing, before and after."""

    part: str
    label: str
    """What the form of the thing calls the part. Empty if no form has it."""
    old: str
    new: str


def changes_in(one: LoggedAnywhere, text: Text) -> Sequence[ChangedPart]:
    """What the entry says about before and after: each part once, lists as what they lost and gained."""
    details = _priced(one.details)
    changes = [
        _part(one.action, name, details[f"{_OLD}{name}"], details.get(f"{_NEW}{name}", details.get(name)), text)
        for name in dict.fromkeys(name.removeprefix(_OLD) for name in details if name.startswith(_OLD))
    ]
    lists = dict.fromkeys(name.removesuffix(_ADDED).removesuffix(_REMOVED) for name in details if name.endswith((_ADDED, _REMOVED)))
    changes += [_part(one.action, name, details.get(f"{name}{_REMOVED}"), details.get(f"{name}{_ADDED}"), text) for name in lists]
    if "granted" in details or "revoked" in details:
        changes.append(_part(one.action, "permissions", details.get("revoked"), details.get("granted"), text))
    return changes


def _part(action: str, name: str, old: Any, new: Any, text: Text) -> ChangedPart:
    return ChangedPart(name, _label(action, name, text), _shown(name, old, text), _shown(name, new, text))


def _priced(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, with its prices in words. Entries of before the currency was always said keep their numbers."""
    now = str(details.get("new_currency", details.get("currency", "")))
    currencies = {f"{_OLD}{_PRICE}": str(details.get("old_currency", now)), f"{_NEW}{_PRICE}": now}
    return {
        name: priced(value, currencies[name]) if isinstance(value, int) and currencies.get(name) else value
        for name, value in details.items()
    } | {name: details[name].upper() for name in (f"{_OLD}currency", f"{_NEW}currency") if isinstance(details.get(name), str)}


def _label(action: str, name: str, text: Text) -> str:
    """What the form of the thing calls the part: no list of ours, so no form can be forgotten. Empty if none has it."""
    forms = [f"{texts}.{name}" for begin, texts in _FORMS if action.startswith(begin)]
    for key in (*forms, _OTHERWISE.get(name, f"{_SHARED}.{name}")):
        try:
            return str(text(key))
        except LookupError:
            continue
    return ""


def _shown(name: str, value: Any, text: Text) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return str(text("console.yes" if value else "console.no"))
    if name == "role":
        return role_in_words(str(value), text)
    items = [value] if isinstance(value, str) else value
    if name == "events" and isinstance(items, list):
        return ", ".join(event_in_words(str(one), text) for one in items)
    if isinstance(items, list) and all(isinstance(one, str) for one in items):
        return ", ".join(in_words(_FIELDS.get(name, name), one, text) if one in _WORDS.get(name, _NO_WORDS) else one for one in items)
    return msgspec.json.encode(value).decode()


# The platform's log also has what happens in no organization.
SENTENCES: Final = frozenset(one.name for one in EVENT_TYPES if one.audited)
_FEWEST_FOLDED: Final = 3
# What names the thing, by the beginning of the action. The first part of the entry that is there counts.
_NAMED_BY: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("service.permission.", ("permission",)),
    ("service.role.", ("name", "role_slug")),
    ("service.assignment.", ("role_slug",)),
    ("service.claim.", ("claim",)),
    ("service.oauth_credentials.", ("provider",)),
    ("service.", ("service_name", "service_slug")),
    ("client_secret.", ("prefix",)),
    ("user_key.", ("prefix",)),
    ("role.", ("name", "role_slug")),
    ("team.member.", ()),
    ("team.", ("name", "team_slug")),
    ("subscription.", ("plan_name",)),
    ("profile_field.", ("key",)),
    ("platform.job.", ("kind",)),
    ("resource_server.", ("identifier",)),
    ("user.consent.", ("service_name", "service_slug")),
    ("", ("invited_email", "email", "name", "domain", "host", "slug", "service_slug")),
)
# The pages of things, with the names of the parts of an entry that their addresses need.
_BY_ID: Final[Mapping[str, str]] = {
    TargetType.ROLE: f"{PEOPLE}/roles/{{target_id}}",
    TargetType.PROFILE_FIELD: f"{PEOPLE}/fields/{{key}}",
    TargetType.INVITATION: f"{PEOPLE}/invitations",
    TargetType.TEAM: f"{PEOPLE}/teams/{{team_slug}}",
    TargetType.SERVICE: f"{APPLICATIONS}/{{service_slug}}",
    TargetType.API_KEY: f"{APPLICATIONS}/{{service_slug}}/api-keys",
    TargetType.USER_KEY: f"{APPLICATIONS}/{{service_slug}}/user-keys",
    TargetType.PLAN: f"{APPLICATIONS}/{{service_slug}}/plans/{{target_id}}",
    TargetType.SUBSCRIPTION: f"{APPLICATIONS}/{{service_slug}}/plans",
    TargetType.WEBHOOK: f"{EVENTS}/{{target_id}}",
    TargetType.SIEM: f"{EVENTS}/siem",
    TargetType.HOOK: HOOKS,
    TargetType.MANAGEMENT_KEY: f"{KEYS}/{{target_id}}",
    TargetType.SCIM_TOKEN: f"{DIRECTORIES}/scim/{{target_id}}",
    TargetType.UPSTREAM_PROVIDER: f"{DIRECTORIES}/{{target_id}}",
    TargetType.RESOURCE_SERVER: f"{APIS}/{{target_id}}",
    TargetType.TRUSTED_ISSUER: f"{TRUSTED_ISSUERS}/{{target_id}}",
    TargetType.SETUP_LINK: f"{SETUP_LINKS}/{{target_id}}",
    TargetType.PROPOSAL: f"{PROPOSALS}/{{target_id}}",
    TargetType.DOMAIN: f"{SETTINGS}/domain",
    TargetType.BRANDING: f"{SETTINGS}/looks",
    TargetType.ORGANIZATION: HOME,
}
PLACES: Final = (get_end_user, get_service, list_webhooks, list_management_keys, list_scim_tokens, list_upstream_providers, get_branding)
"""What a reader may call to whom these pages are shown. Whoever reads the log alone sees names in place of links."""


class LoggedRun(Frozen):
    """An entry, and how many like it follow in the list: the same action by the same actor."""

    entry: AuditEntryRecord
    more: int = 0


def folded(entries: Sequence[AuditEntryRecord]) -> Sequence[LoggedRun]:
    """Runs of like entries as their newest."""
    runs = list[LoggedRun]()
    for _, group in groupby(entries, key=lambda one: (one.action, one.actor and one.actor.id, one.success)):
        like = list(group)
        runs += [LoggedRun(like[0], len(like) - 1)] if len(like) >= _FEWEST_FOLDED else map(LoggedRun, like)
    return runs


def entry_of(row: LoggedAnywhere | LoggedRun) -> LoggedAnywhere:
    return row.entry if isinstance(row, LoggedRun) else row


def called(actor: Any) -> str:
    """A person's name or address, or the name of a key or link. Empty for the system."""
    if actor is None:
        return ""
    key = key_of(actor)
    return str(actor.name or actor.email) if key is None else f"{key.name} ({key.prefix}…)"


def sentence_of(row: LoggedAnywhere | LoggedRun, text: Text) -> str:
    """The sentence of an action that the catalogue has, or the action's own name."""
    one = entry_of(row)
    if one.action not in SENTENCES:
        return one.action
    somebody = text("console.told.somebody")
    said = text(
        f"console.told.by.{one.action}",
        # An operator at the command line has no account.
        who=called(one.actor) or _part_audit_sentence(one, "operator") or text("console.told.system"),
        what=thing_of(one) or (somebody if one.target_type == TargetType.USER else "–"),  # noqa: RUF001 - a dash
        role=_role(one, text) or "–",  # noqa: RUF001
        service=_part_audit_sentence(one, "service_name", "service_slug") or "–",  # noqa: RUF001
        team=_part_audit_sentence(one, "team_name", "team_slug") or "–",  # noqa: RUF001
        whom=_whom(one, text),
        application=_application(one, text),
    )
    more = row.more if isinstance(row, LoggedRun) else 0
    return text("console.told_run.more", sentence=said, count=more) if more else said


def thing_of(one: LoggedAnywhere) -> str:
    """The name of the person or thing that the entry is about. Empty if the entry has none."""
    names = next(names for begin, names in _NAMED_BY if one.action.startswith(begin))
    if one.target_type == TargetType.USER and isinstance(one.subject, msgspec.Struct):
        return one.subject.name or str(one.subject.email)
    found = _part_audit_sentence(one, *names) or (one.service.name if isinstance(one.service, msgspec.Struct) else "")
    if not found and one.target_type == TargetType.USER and one.actor is not None and str(one.actor.id) == one.target_id:
        return called(one.actor)
    return found


def place_of(row: LoggedAnywhere | LoggedRun, path: Mapping[str, str]) -> str:
    """The address of the thing's page. Empty if it has none."""
    one = entry_of(row)
    values = {**{name: value for name, value in one.details.items() if isinstance(value, str)}, **path, "target_id": one.target_id}
    if isinstance(one.service, msgspec.Struct):
        values["service_slug"] = one.service.slug
    if one.target_type == TargetType.USER:
        known = isinstance(one.subject, msgspec.Struct)
        return address(f"{PEOPLE}/users/{{target_id}}", values) if known else ""
    template = f"{DIRECTORIES}/domains/{{domain_id}}" if one.action.startswith("domain_route.") else _BY_ID.get(one.target_type, "")
    if one.action.endswith(".deleted") or not template:
        return ""
    try:
        return address(template, values)
    except KeyError:
        return ""


def _part_audit_sentence(one: LoggedAnywhere, *names: str) -> str:
    return next((str(value) for name in names if (value := one.details.get(name))), "")


def _whom(one: LoggedAnywhere, text: Text) -> str:
    """To whom the role of an application is assigned, as the middle of a sentence."""
    # Entries of before have no names of teams.
    if team := _part_audit_sentence(one, "team_name", "team"):
        return text("console.told.whom_team", name=team)
    if role := _part_audit_sentence(one, "organization_role"):
        return text("console.told.whom_role", name=role_in_words(role, text))
    if isinstance(one.subject, msgspec.Struct):
        return text("console.told.whom_person", name=one.subject.name or str(one.subject.email))
    return text("console.told.whom_somebody")


def _application(one: LoggedAnywhere, text: Text) -> str:
    """An application, as the middle of a sentence."""
    name = thing_of(one)
    return text("console.told.application_named", name=name) if name else text("console.told.application_unnamed")


def _role(one: LoggedAnywhere, text: Text) -> str:
    return role_in_words(_part_audit_sentence(one, "new_role", "role", "role_slug"), text)
