"""Mappers of a Keycloak client: what each told the application, and what tells it here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.domain.platform.imports.records import SourceRecord, shown

_STANDARD: Final = "the scopes `profile` and `email` tell it"
_UNKNOWN: Final = "there is no counterpart: see `claims` of a service, or let the application do without"
_CODE: Final = "it is code, which nothing here runs"
_SAML: Final = "see `attribute_mapping` in `saml` of a service"
_AUDIENCE: Final = "access tokens name the service as their audience, `service:<organization>/<service>`: tell whoever checks them"
_WITHOUT: Final = "tokens have it without a mapper, or need none"
_STANDARD_CLAIMS: Final = frozenset(
    {
        *("name", "given_name", "family_name", "preferred_username", "picture", "zoneinfo", "locale", "updated_at"),
        *("email", "email_verified"),
    }
)
# Properties of a person at Keycloak, and the standard claims that tell them.
_PROPERTIES: Final[Mapping[str, str]] = {
    "username": "preferred_username",
    "email": "email",
    "emailVerified": "email_verified",
    "firstName": "given_name",
    "lastName": "family_name",
    "id": "sub",
}
_FIXED: Final[Mapping[str, str]] = {
    "oidc-full-name-mapper": _STANDARD,
    "oidc-sub-mapper": _WITHOUT,
    "oidc-acr-mapper": _WITHOUT,
    "oidc-amr-mapper": _WITHOUT,
    "oidc-allowed-origins-mapper": _WITHOUT,
    "oidc-audience-mapper": _AUDIENCE,
    "oidc-audience-resolve-mapper": _AUDIENCE,
    "oidc-address-mapper": "there are no postal addresses here",
}
_ROLES: Final = frozenset({"oidc-usermodel-client-role-mapper", "oidc-usermodel-realm-role-mapper"})
_PLACES: Final[Mapping[str, str]] = {
    "id.token.claim": "id_token",
    "userinfo.token.claim": "userinfo",
    "access.token.claim": "access_token",
}
_LONGEST_NAME: Final = 60


def advice(mappers: Sequence[SourceRecord]) -> Iterator[str]:
    """A sentence for each thing to do, with the names of the mappers that it is about."""
    named: dict[str, list[str]] = {}
    for one in mappers:
        named.setdefault(_todo(one), []).append(f'"{shown(one.text("name") or one.text("protocolMapper") or "?", _LONGEST_NAME)}"')
    for todo, names in named.items():
        yield f"{'Mapper' if len(names) == 1 else 'Mappers'} {', '.join(names)}: {todo}."


def _todo(mapper: SourceRecord) -> str:
    kind, settings = mapper.text("protocolMapper"), mapper.record("config")
    if "script" in kind:
        return _CODE
    return _SAML if kind.startswith("saml-") else _FIXED.get(kind) or _by_claim(kind, settings.text("claim.name"), settings) or _UNKNOWN


def _by_claim(kind: str, claim: str, settings: SourceRecord) -> str:
    """Empty for a mapper that makes no claim which we know."""
    if kind in _ROLES:
        return _by_scope("roles", claim, "roles", settings)
    if kind == "oidc-group-membership-mapper":
        return _by_scope("groups", claim, "teams", settings)
    if kind == "oidc-hardcoded-claim-mapper" and claim:
        return f"write it as `claims: {_claim(claim, 'constant', settings, settings.text('claim.value'))}`"
    is_of_person = kind in {"oidc-usermodel-property-mapper", "oidc-usermodel-attribute-mapper"}
    return _of_person(settings.text("user.attribute"), claim, settings) if is_of_person and claim else ""


def _of_person(told: str, claim: str, settings: SourceRecord) -> str:
    ours = _PROPERTIES.get(told, told)
    if claim in _STANDARD_CLAIMS and claim == ours:
        return _STANDARD
    if ours in _STANDARD_CLAIMS | {"sub"}:
        return f"the application reads `{ours}` in the place of `{shown(claim, _LONGEST_NAME)}`"
    return f"declare a field `{shown(told, _LONGEST_NAME)}`, and write `claims: {_claim(claim, 'organization_field', settings, told)}`"


def _by_scope(scope: str, claim: str, source: str, settings: SourceRecord) -> str:
    """Names with dots are objects within objects, which claims of a service are not."""
    if claim in {"", scope}:
        return f"the scope `{scope}` tells it"
    if "." in claim or "\\" in claim:
        return f"the scope `{scope}` tells it, and the application reads `{scope}` in the place of `{shown(claim, _LONGEST_NAME)}`"
    return f"the scope `{scope}` tells it as `{scope}`, or write `claims: {_claim(claim, source, settings)}`"


def _claim(name: str, source: str, settings: SourceRecord, argument: str | None = None) -> str:
    into = [ours for theirs, ours in _PLACES.items() if settings.text(theirs) == "true"]
    given = {"source": source, **({} if argument is None else {"argument": argument}), "into": into or ["id_token"]}
    return json.dumps({shown(name, _LONGEST_NAME): given}, ensure_ascii=False)
