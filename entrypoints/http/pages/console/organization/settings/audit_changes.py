"""What an entry of an audit log says about before and after, by the names that the forms of the console have for it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.claims import ClaimPlace, ClaimSource
from core.domain.identity.realms import LoginPolicy
from core.domain.services.plans import priced
from core.domain.services.services import AssertionAudience, SecurityProfile, ServiceType, SignInPolicy
from core.domain.tenancy.domains import JoinPolicy
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import MfaPolicy
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen
from entrypoints.http.pages.console.cells import in_words, role_in_words
from entrypoints.http.pages.console.organization.event_labels import event_in_words
from entrypoints.http.routes.record.audit import LoggedAnywhere
from ports.texts import Text

_OLD, _NEW, _ADDED, _REMOVED = "old_", "new_", "_added", "_removed"
_PRICE: Final = "price_cents"
# The texts of the forms, by the beginning of the action. Forms that have no texts of their own use those that all forms share.
_FORMS: Final[Sequence[tuple[str, str]]] = (
    ("resource_server.", "console.apis"),
    ("service.user_keys.", "console.user_keys"),
    ("service.proxy.", "console.proxy"),
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
