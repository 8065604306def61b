"""Clients, roles and groups of a Keycloak realm, as a configuration document can hold them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from core.domain.json import Json
from core.domain.platform.imports.addresses import addresses
from core.domain.platform.imports.clients import MOST_CLIENTS, ForeignClient, ForeignParts, ForeignRole, type_of
from core.domain.platform.imports.keycloak import BUILT_IN_CLIENTS
from core.domain.platform.imports.keycloak_mappers import advice
from core.domain.platform.imports.records import Notes, SourceRecord
from core.frozen import Frozen

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
