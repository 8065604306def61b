"""Metadata clients: applications that nobody has registered. Most are described by a document at an https address of their own, which is
their client id. Open clients have none: what they said of themselves at `POST /oauth/register` is their client id. Organizations say whose
documents they let in, and whether open clients, and so does each of their APIs; both must let a client in.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.frozen import Frozen

MOST_HOSTS: Final = 50
LONGEST_HOST: Final = 260
# A name with a dot, in the form in which programs write it, and a port if it is not that of https.
_HOST: Final = re.compile(
    r"(?=.{1,253}(?::|\Z))[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
    r"\.[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::(?!443\Z)[1-9][0-9]{0,4})?"
)


class MetadataClients(StrEnum):
    """Whose documents are let in."""

    OFF = "off"
    """Nobody's."""
    NAMED = "named"
    """Those at the named hosts."""
    ANY = "any"
    """Everybody's: whoever can publish a document may ask people for their consent."""


class RegisteredClients(StrEnum):
    """Whether open clients are let in: programs that have registered themselves, at no matter which address of people's own devices. They
    may send people back to the hosts of `metadata_hosts` as well.
    """

    OFF = "off"
    ON = "on"


class Provenance(Frozen):
    """What organizations and APIs judge a metadata client by."""

    host: str | None
    """The host of its document. None for an open client."""
    leads_to: tuple[str, ...] = ()
    """The hosts to which an open client sends people, apart from their own devices."""


def is_metadata_host(host: str) -> bool:
    return len(host) <= LONGEST_HOST and _HOST.fullmatch(host) is not None


def metadata_hosts(given: Sequence[str]) -> tuple[str, ...]:
    """The hosts as they are kept, sorted, each once. Each is compared as it stands: a host does not include the hosts below it, and a host
    with a port is another one. Raises `BadRequest`.
    """
    if len(given) > MOST_HOSTS:
        raise BadRequest(f"metadata_hosts: at most {MOST_HOSTS}", words="field_list", values={"most": MOST_HOSTS})
    for at, host in enumerate(given):
        if not is_metadata_host(host):
            raise BadRequest(
                f"metadata_hosts[{at}]: the host of a document's address, such as claude.ai: small letters, no https://, no path, no *",
                words="metadata_host",
            )
    return tuple(sorted(set(given)))
