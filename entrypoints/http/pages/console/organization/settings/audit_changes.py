"""What an entry of an audit log says about before and after, by the names that the forms of the console have for it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.claims import ClaimPlace, ClaimSource
from core.domain.federation.saml.configurations import ConfigurationChange
from core.domain.identity.realms import LoginPolicy
from core.domain.services.services import AssertionAudience, ServiceType, SignInPolicy
from core.domain.signing_keys import TokenAlgorithm
from core.domain.tenancy.domain_routes import JoinPolicy
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import MfaPolicy
from core.frozen import Frozen, names_of
from entrypoints.http.pages.console.cells import in_words, role_in_words
from entrypoints.http.pages.console.organization.event_labels import event_in_words
from entrypoints.http.routes.record.audit import LoggedAnywhere
from ports.texts import Text

_OLD, _NEW, _ADDED, _REMOVED = "old_", "new_", "_added", "_removed"
# The parts whose form has a label: the text `console.field.…` of the same name.
LABELLED: Final = frozenset(
    (
        *("mfa_policy", "mfa_grace_days", "device_trust_days", "session_lifetime_hours", "invitation_domains", "sign_in_links"),
        *("metadata_clients", "metadata_hosts"),
        *("name", "description", "role", "tier", "max_services", "max_users", "permissions", "key", "email"),
        *("logo_url", "primary_color", "help_url", "privacy_url", "terms_url"),
        *("host", "events", "is_active", "groups", "profile_mapping", "upstream_provider_id", "login_policy", "join_policy"),
        *("kind", "state", "issuer", "client_id", "scopes", "enabled", "sso_url", "slo_url", "slo_response_url", "metadata_url"),
        *("certificates_sha256", "subject_source", "email_sources", "wants_encrypted", "requested_contexts"),
        *names_of(ConfigurationChange),
        *("service_type", "sign_in_policy", "trusted", "is_agent", "redirect_uris", "post_logout_redirect_uris", "device_activation_uri"),
        *("id_token_alg", "access_token_alg", "assertion_audience", "jwks_uri", "backchannel_logout_session_required"),
        *("source", "argument", "into", "price_cents", "currency", "features", "billing_price_id", "status"),
    )
)
# Parts that entries call otherwise than forms do.
_OTHERWISE: Final[Mapping[str, str]] = {
    "owner_user_id": "owner",
    "key_ids": "jwks",
    "backchannel_logout_host": "backchannel_logout_uri",
    "claim": "name",
    "current_period_end": "ends_at",
    "signing_certificates_sha256": "certificates_sha256",
    "acs_endpoints": "acs_url",
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
    "source": frozenset(ClaimSource),
    "into": frozenset(ClaimPlace),
    "permissions": frozenset(Capability),
    "kind": frozenset(("oidc", "saml")),
}
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
    details = one.details
    changes = [
        _part(name, details[f"{_OLD}{name}"], details.get(f"{_NEW}{name}", details.get(name)), text)
        for name in dict.fromkeys(name.removeprefix(_OLD) for name in details if name.startswith(_OLD))
    ]
    lists = dict.fromkeys(name.removesuffix(_ADDED).removesuffix(_REMOVED) for name in details if name.endswith((_ADDED, _REMOVED)))
    changes += [_part(name, details.get(f"{name}{_REMOVED}"), details.get(f"{name}{_ADDED}"), text) for name in lists]
    if "granted" in details or "revoked" in details:
        changes.append(_part("permissions", details.get("revoked"), details.get("granted"), text))
    return changes


def _part(name: str, old: Any, new: Any, text: Text) -> ChangedPart:
    key = _OTHERWISE.get(name, name)
    label = str(text(f"console.field.{key}")) if key in LABELLED or name in _OTHERWISE else ""
    return ChangedPart(name, label, _shown(name, old, text), _shown(name, new, text))


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
        return ", ".join(in_words(one, text) if one in _WORDS.get(name, _NO_WORDS) else one for one in items)
    return msgspec.json.encode(value).decode()
