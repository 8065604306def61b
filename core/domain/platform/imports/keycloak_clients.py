"""Converts clients, roles and groups of a Keycloak realm to a configuration file."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from core.domain.formats import Json
from core.domain.platform.imports.clients import MOST_CLIENTS, ForeignClient, ForeignParts, ForeignRole, addresses, type_of
from core.domain.platform.imports.keycloak import BUILT_IN_CLIENTS
from core.domain.platform.imports.records import Notes, SourceRecord, shown
from core.frozen import Frozen

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
    """Returns a sentence for each thing to do about a client's protocol mappers: what each disclosed to the application, and what discloses
    it here.
    """
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


_DEEPEST: Final = 20
_MOST_ROLES: Final = 100
_LOGOUT_URIS: Final = "post.logout.redirect.uris"
_LONGEST_LOGOUT_URIS: Final = 20_000
_MOST_LOGOUT_URIS: Final = 100
_SEPARATOR: Final = "##"
_KEY: Final = re.compile(r"\$\{([^{}]+)\}")
_PREFIX: Final = "client_"


class RealmParts(Frozen):
    """What of a realm becomes configuration, as it stands in the export."""

    clients: Sequence[Json]
    roles: Json
    groups: Sequence[Json]
    texts: Json = None
    """The realm's texts by language."""
    language: Json = None
    """The language of the realm."""


def foreign_parts(realm: RealmParts) -> ForeignParts:
    texts = _Texts(realm)
    return ForeignParts(
        system="Keycloak",
        clients=list(_clients(realm, texts)),
        teams=list(_groups(realm.groups, "", 0)),
    )


class _Texts:
    """What stands in the place of keys such as `${client_shop}`."""

    def __init__(self, realm: RealmParts) -> None:
        texts = realm.texts if isinstance(realm.texts, Mapping) else {}
        first = [realm.language, "en"]
        languages = sorted(texts, key=lambda one: (first.index(one) if one in first else len(first), one))
        self._texts = [one for language in languages if isinstance(one := texts[language], Mapping)]

    def resolved(self, text: str, otherwise: str) -> str:
        """The text with its keys replaced. A key that has no text makes it `otherwise`."""
        found = {key: self._find(key) for key in _KEY.findall(text)}
        if None in found.values():
            return otherwise
        return _KEY.sub(lambda key: found[key[1]] or "", text)

    def _find(self, key: str) -> str | None:
        return next((one for texts in self._texts if isinstance(one := texts.get(key), str) and one.strip()), None)


def _clients(realm: RealmParts, texts: _Texts) -> Iterator[ForeignClient]:
    roles = SourceRecord(realm.roles if isinstance(realm.roles, Mapping) else {}, Notes()).record("client").content
    for content in realm.clients[:MOST_CLIENTS]:
        client = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
        name = client.text("clientId")
        if name and name not in BUILT_IN_CLIENTS and not name.endswith("-realm"):
            yield _client(name, client, roles.get(name), texts)


def _client(name: str, client: SourceRecord, roles: Json, texts: _Texts) -> ForeignClient:
    attributes = client.record("attributes")
    is_public = client.flag("publicClient")
    root = client.text("rootUrl")
    redirects = addresses(() if client.text("protocol") == "saml" else client.texts("redirectUris"), root, is_public=is_public)
    listed = [one for one in attributes.text(_LOGOUT_URIS, _LONGEST_LOGOUT_URIS).split(_SEPARATOR) if one not in {"", "+", "-"}]
    logout = attributes.text("backchannel.logout.url")
    is_service = client.flag("serviceAccountsEnabled") and not client.flag("standardFlowEnabled")
    service_type = "api" if is_service else type_of(redirects)
    return ForeignClient(
        name=name,
        client_id="" if client.text("protocol") == "saml" else name,
        title=texts.resolved(client.text("name"), _readable(name)) or name,
        service_type=service_type,
        redirects=redirects,
        after_logout=addresses(listed[:_MOST_LOGOUT_URIS], root, is_public=is_public, own_schemes=service_type in {"mobile", "desktop"}),
        backchannel_logout_uri=logout if logout and addresses([logout], own_schemes=False).kept else "",
        roles=list(_roles(roles, texts)),
        remarks=list(_remarks(client)),
    )


def _readable(name: str) -> str:
    """`client_shop-admin` is "Shop admin"."""
    words = re.sub(r"[-_.\s]+", " ", name.removeprefix(_PREFIX)).strip()
    return words[:1].upper() + words[1:]


def _remarks(client: SourceRecord) -> Iterator[str]:
    if client.content.get("enabled") is False:
        yield "It was switched off at Keycloak. Take it out, unless it is to work here."
    if client.text("protocol") == "saml":
        yield "It speaks SAML: give it the service provider's metadata."
    if client.content.get("implicitFlowEnabled") is True or client.content.get("directAccessGrantsEnabled") is True:
        yield "It may have used the implicit flow, or the passwords of people. Neither is here: use the authorization code."
    yield from advice(client.records("protocolMappers"))


def _roles(content: Json, texts: _Texts) -> Iterator[ForeignRole]:
    for one in content[:_MOST_ROLES] if isinstance(content, list) else ():
        role = SourceRecord(one if isinstance(one, Mapping) else {}, Notes())
        yield ForeignRole(role.text("name"), texts.resolved(role.text("description"), ""))


def _groups(groups: Iterable[Json], above: str, depth: int) -> Iterator[str]:
    for one in groups:
        if not isinstance(one, Mapping) or depth > _DEEPEST:
            continue
        name = one.get("name")
        if not isinstance(name, str) or not name:
            continue
        path = f"{above}/{name}" if above else name
        yield path
        below = one.get("subGroups")
        yield from _groups(below if isinstance(below, list) else (), path, depth + 1)
