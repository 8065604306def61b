"""Converts clients and groups of another system to a configuration file for one organization."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.lines import one_line
from core.domain.normal_forms import ascii_letters
from core.domain.platform.imports.records import shown
from core.domain.services.clients import LOOPBACK_ORIGIN, kept_client_id, redirect_uri
from core.domain.tenancy.teams import free_slug
from core.frozen import Frozen

_ANY_PORT: Final = re.compile(rf"(?P<host>{LOOPBACK_ORIGIN}):\*(?P<path>/[^*]*)?")
_PLACEHOLDER: Final = re.compile(r"##\w+##|@@\w+@@|\$\{|\$env\{")
_FIELD: Final = "redirect_uris"


class LostAddress(Frozen):
    address: str
    why: str


class Addresses(Frozen):
    """Redirect URIs of another system's client: the ones that an application may have, and the others with the reason why it may not."""

    kept: Sequence[str] = ()
    lost: Sequence[LostAddress] = ()
    takes_any_port: bool = False
    """An address on the person's device had a wildcard for its port, which installed applications need not name."""


def addresses(given: Iterable[str], root: str = "", *, is_public: bool = False, own_schemes: bool = True) -> Addresses:
    """`root` comes in front of addresses that begin with `/`. A public client may run on people's devices. `own_schemes` says whether an
    application may have a scheme of its own.
    """
    kept: dict[str, None] = {}
    lost: list[LostAddress] = []
    takes_any_port = False
    for one in dict.fromkeys(given):
        whole = f"{root.rstrip('/')}{one}" if one.startswith("/") and root else one
        on_device = _ANY_PORT.fullmatch(whole) if is_public else None
        try:
            for uri in [whole] if on_device is None else _of_any_port(on_device):
                kept[redirect_uri(uri, _FIELD, private_use=own_schemes)] = None
        except BadRequest as refusal:
            lost.append(LostAddress(whole, _why(whole, refusal)))
        else:
            takes_any_port = takes_any_port or on_device is not None
    return Addresses(tuple(kept), tuple(lost), takes_any_port)


def _of_any_port(found: re.Match[str]) -> Sequence[str]:
    host, path = found["host"], found["path"]
    # Programs that have no path of their own write the address with a slash or without.
    return [f"{host}{path}"] if path else [host, f"{host}/"]


def _why(address: str, refusal: BadRequest) -> str:
    if _PLACEHOLDER.search(address):
        return "it has a placeholder: write the address that stands for it"
    if "*" in address:
        return "there are no wildcards: write each address that the application uses"
    return refusal.message.removeprefix(f"{_FIELD}: ")


_LONGEST_SLUG: Final = 44
LONGEST_NAME: Final = 100
_LONGEST_DESCRIPTION: Final = 500
MOST_CLIENTS: Final = 5_000
MOST_GROUPS: Final = 500
_MOST_ROLES: Final = 100
_NOTHING_LEFT: Final = Addresses()


class ForeignRole(Frozen):
    name: str
    description: str = ""
    remarks: Sequence[str] = ()


class ForeignClient(Frozen, kw_only=True):
    """A client as a service could have it."""

    name: str
    """The other system's own name for the client. The slug is made of it."""
    client_id: str = ""
    """What the client's programs are configured with, if the file says it."""
    title: str
    """The display name."""
    service_type: str
    redirects: Addresses = _NOTHING_LEFT
    after_logout: Addresses = _NOTHING_LEFT
    backchannel_logout_uri: str = ""
    roles: Sequence[ForeignRole] = ()
    remarks: Sequence[str] = ()
    """Sentences about what stays behind."""


class ForeignParts(Frozen, kw_only=True):
    """What of another system becomes configuration."""

    system: str
    clients: Sequence[ForeignClient]
    roles: Sequence[ForeignRole] = ()
    """Those of the organization."""
    teams: Sequence[str] = ()
    """Names of teams, each behind the names of those above it."""
    remarks: Sequence[str] = ()


def type_of(redirects: Addresses) -> str:
    """The type of service that may have all of these addresses."""
    if redirects.takes_any_port:
        return "desktop"
    return "web" if all(one.startswith(("http://", "https://")) for one in redirects.kept) else "mobile"


def slug_of(text: str) -> str:
    """The slug that an application, a role or a team of another system gets here. Empty when nothing is left of the name."""
    return re.sub(r"[^a-z0-9]+", "-", ascii_letters(text)).strip("-")[:_LONGEST_SLUG].strip("-")


def document(organization: str, parts: ForeignParts) -> Iterator[str]:
    """Returns the lines of the configuration file: an administrator reads it, and then applies it. Its comments contain what cannot be
    configured here. Its texts are written as JSON writes them, which YAML reads alike.
    """
    yield f"# Made of clients of {parts.system}. Read it, then: postern config plan FILE"
    yield "# Client ids and secrets are new ones: postern service secret, postern service client-id"
    for one in parts.remarks:
        yield f"# {_comment(one)}"
    yield "postern: 1"
    yield "organizations:"
    yield f"  {_quoted(organization)}:"
    yield from _roles(parts.roles, "    ", "        permissions: []")
    if parts.teams:
        yield "    teams:"
        yield from _teams(parts.teams)
    yield "    services:"
    taken: set[str] = set()
    for client in parts.clients[:MOST_CLIENTS]:
        slug = free_slug(slug_of(client.name) or "service", taken)
        taken.add(slug)
        yield from _service(organization, slug, client, parts.system)


def lost_addresses(parts: ForeignParts) -> Iterator[str]:
    """A line for each address that no service gets, and for each service to which nobody can come back for that reason."""
    for client in parts.clients[:MOST_CLIENTS]:
        name = shown(client.name, LONGEST_NAME)
        for one in client.redirects.lost:
            yield f"{name}: {_lost(one)}"
        if client.redirects.lost and not client.redirects.kept:
            yield f"{name}: no address is left, so nobody can come back to it"


def _lost(one: LostAddress) -> str:
    return f"{shown(one.address, 200)} is left out: {one.why}"


def _service(organization: str, slug: str, client: ForeignClient, system: str) -> Iterator[str]:
    yield f"      {_quoted(slug)}:"
    if slug != client.name:
        yield f"        # {_comment(client.name)} at {system}"
    for words in client.remarks:
        yield f"        # {_comment(words)}"
    if client.client_id:
        yield f"        # {_comment(_keeping(organization, slug, client.client_id))}"
    yield f"        name: {_quoted(one_line(client.title)[:LONGEST_NAME] or client.name[:LONGEST_NAME])}"
    yield f"        service_type: {_quoted(client.service_type)}"
    yield from _listed("redirect_uris", client.redirects)
    yield from _listed("post_logout_redirect_uris", client.after_logout)
    if client.backchannel_logout_uri:
        yield f"        backchannel_logout_uri: {_quoted(client.backchannel_logout_uri)}"
    yield from _roles(client.roles, "        ", "")


def _keeping(organization: str, slug: str, client_id: str) -> str:
    """How the service keeps the client id that it had, or why it cannot."""
    try:
        kept = kept_client_id(client_id)
    except BadRequest:
        return f"Its client id is a new one: {client_id} cannot be kept, since a kept one has 8 to 80 letters, digits and . _ ~ -"
    return f"To keep its client id: postern service client-id --organization {organization} --service {slug} --keep {kept}"


def _listed(name: str, found: Addresses) -> Iterator[str]:
    if found.kept:
        yield f"        {name}:"
        for uri in found.kept:
            yield f"          - {_quoted(uri)}"
    if found.takes_any_port:
        yield "        # An address on the device has any port. Its path is compared: write the one that the application uses"
    for one in found.lost:
        yield f"        # {name}: {_comment(_lost(one))}"


def _roles(roles: Sequence[ForeignRole], indent: str, more: str) -> Iterator[str]:
    taken: set[str] = set()
    for one in roles[:_MOST_ROLES]:
        name = one_line(one.name)
        slug = slug_of(name)
        if not slug or slug in taken:
            continue
        if not taken:
            yield f"{indent}roles:"
        taken.add(slug)
        yield f"{indent}  {_quoted(slug)}:"
        for words in one.remarks:
            yield f"{indent}    # {_comment(words)}"
        yield f"{indent}    name: {_quoted(name[:LONGEST_NAME])}"
        if more:
            yield more
        description = one_line(one.description)
        if description:
            yield f"{indent}    description: {_quoted(description[:_LONGEST_DESCRIPTION])}"


def _teams(paths: Sequence[str]) -> Iterator[str]:
    taken: set[str] = set()
    for path in paths[:MOST_GROUPS]:
        name = one_line(path)
        if not name or len(name) > LONGEST_NAME:
            yield f"      # {_comment(path)} is left out: its name is too long"
            continue
        slug = free_slug(slug_of(path) or "team", taken)
        taken.add(slug)
        yield f"      {_quoted(slug)}:"
        yield f"        name: {_quoted(name)}"
    if len(paths) > MOST_GROUPS:
        yield f"      # {len(paths) - MOST_GROUPS} further groups are left out: an organization has at most {MOST_GROUPS} teams"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _comment(text: str) -> str:
    """On one line, whatever it holds."""
    return shown(text, 500).encode("ascii", "backslashreplace").decode()
