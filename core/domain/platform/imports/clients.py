"""Clients and groups of a Keycloak realm as a configuration document for one organization: somebody reads it, and then applies it. What
cannot be said here stands in the document as a comment.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.json import Json
from core.domain.lines import one_line
from core.domain.platform.imports.keycloak import BUILT_IN_CLIENTS
from core.domain.platform.imports.records import Notes, SourceRecord, shown
from core.domain.services.redirect_uris import redirect_uri
from core.domain.tenancy.teams import free_slug
from core.frozen import Frozen

_LONGEST_SLUG: Final = 44
_LONGEST_NAME: Final = 100
_LONGEST_DESCRIPTION: Final = 500
_MOST_CLIENTS: Final = 5_000
_MOST_GROUPS: Final = 500
_DEEPEST: Final = 20
_LOGOUT_URIS: Final = "post.logout.redirect.uris"
_SEPARATOR: Final = "##"


class RealmParts(Frozen):
    """What of a realm becomes configuration."""

    clients: Sequence[Json]
    roles: Json
    groups: Sequence[Json]


def slug_of(text: str) -> str:
    """The slug that an application, a role or a team of another system gets here. Empty when nothing is left of the name."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_SLUG].strip("-")


def document(organization: str, parts: RealmParts) -> Iterator[str]:
    """The lines of the document. Its texts are written as JSON writes them, which YAML reads alike."""
    yield "# Made of a realm of Keycloak. Read it, then: postern config plan FILE"
    yield "# Client ids and secrets are new ones: postern service secret"
    yield "postern: 1"
    yield "organizations:"
    yield f"  {_quoted(organization)}:"
    teams = list(_groups(parts.groups, "", 0))
    if teams:
        yield "    teams:"
        yield from _teams(teams)
    yield "    services:"
    yield from _services(parts)


def _services(parts: RealmParts) -> Iterator[str]:
    roles = SourceRecord(parts.roles if isinstance(parts.roles, Mapping) else {}, Notes()).record("client").content
    taken: set[str] = set()
    for content in parts.clients[:_MOST_CLIENTS]:
        client = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
        name = client.text("clientId")
        if not name or name in BUILT_IN_CLIENTS or name.endswith("-realm"):
            continue
        slug = free_slug(slug_of(name) or "service", taken)
        taken.add(slug)
        yield from _service(slug, name, client, roles.get(name))


def _service(slug: str, name: str, client: SourceRecord, roles: Json) -> Iterator[str]:
    yield f"      {_quoted(slug)}:"
    if slug != name:
        yield f"        # {_comment(name)} at Keycloak"
    for words in _what_stays_behind(client):
        yield f"        # {words}"
    yield f"        name: {_quoted(one_line(client.text('name'))[:_LONGEST_NAME] or name[:_LONGEST_NAME])}"
    uris = () if client.text("protocol") == "saml" else client.texts("redirectUris")
    good, bad = _sorted_out(uris, client.text("rootUrl"))
    kind = "web" if any(one.startswith("http") for one in good) or not good else "mobile"
    is_service = client.flag("serviceAccountsEnabled") and not client.flag("standardFlowEnabled")
    yield f"        service_type: {_quoted('api' if is_service else kind)}"
    yield from _listed("redirect_uris", good)
    for one in bad:
        yield f"        # {_comment(one)} is left out: addresses are compared letter by letter, and have no wildcards"
    attributes = client.record("attributes")
    good, bad = _sorted_out([one for one in attributes.text(_LOGOUT_URIS, 20_000).split(_SEPARATOR) if one not in {"", "+", "-"}], "")
    yield from _listed("post_logout_redirect_uris", good)
    for one in bad:
        yield f"        # {_comment(one)} is left out of post_logout_redirect_uris"
    logout = attributes.text("backchannel.logout.url")
    if logout and _sorted_out([logout], "")[0]:
        yield f"        backchannel_logout_uri: {_quoted(logout)}"
    yield from _roles(roles)


def _what_stays_behind(client: SourceRecord) -> Iterator[str]:
    if client.content.get("enabled") is False:
        yield "It was switched off at Keycloak. Take it out, unless it is to work here."
    if client.text("protocol") == "saml":
        yield "It speaks SAML: give it the service provider's metadata."
    if client.content.get("implicitFlowEnabled") is True or client.content.get("directAccessGrantsEnabled") is True:
        yield "It may have used the implicit flow, or the passwords of people. Neither is here: use the authorization code."
    mappers = [one.text("protocolMapper") for one in client.records("protocolMappers")]
    scripts = [one for one in mappers if "script" in one]
    if mappers:
        yield f"It has mappers ({len(mappers)}){', some of them code' if scripts else ''}: see `claims` of a service."


def _roles(content: Json) -> Iterator[str]:
    taken: set[str] = set()
    for one in content[:100] if isinstance(content, list) else ():
        role = SourceRecord(one if isinstance(one, Mapping) else {}, Notes())
        name = one_line(role.text("name"))
        slug = slug_of(name)
        if not slug or slug in taken:
            continue
        if not taken:
            yield "        roles:"
        taken.add(slug)
        yield f"          {_quoted(slug)}:"
        yield f"            name: {_quoted(name[:_LONGEST_NAME])}"
        description = one_line(role.text("description"))
        # Keycloak's own roles have keys of its translations.
        if description and not description.startswith("${"):
            yield f"            description: {_quoted(description[:_LONGEST_DESCRIPTION])}"


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


def _teams(paths: Sequence[str]) -> Iterator[str]:
    taken: set[str] = set()
    for path in paths[:_MOST_GROUPS]:
        name = one_line(path)
        if not name or len(name) > _LONGEST_NAME:
            yield f"      # {_comment(path)} is left out: its name is too long"
            continue
        slug = free_slug(slug_of(path) or "team", taken)
        taken.add(slug)
        yield f"      {_quoted(slug)}:"
        yield f"        name: {_quoted(name)}"
    if len(paths) > _MOST_GROUPS:
        yield f"      # {len(paths) - _MOST_GROUPS} further groups are left out: an organization has at most {_MOST_GROUPS} teams"


def _sorted_out(uris: Iterable[str], root: str) -> tuple[Sequence[str], Sequence[str]]:
    """The addresses that a service may have, and the others."""
    good: list[str] = []
    bad: list[str] = []
    for one in dict.fromkeys(uris):
        whole = f"{root.rstrip('/')}{one}" if one.startswith("/") and root else one
        try:
            good.append(redirect_uri(whole, "redirect_uris", private_use=True))
        except BadRequest:
            bad.append(one)
    return good, bad


def _listed(name: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"        {name}:"
        for one in texts:
            yield f"          - {_quoted(one)}"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _comment(text: str) -> str:
    """On one line, whatever it holds."""
    return shown(text, 200).encode("ascii", "backslashreplace").decode()
