"""Metadata clients: applications that nobody has registered. Each is described by a document at an https address of its own, which is its
client id. Organizations say whose documents they let in, and so does each of their APIs; both must let a document's host in.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest

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


def metadata_hosts(given: Sequence[str]) -> tuple[str, ...]:
    """The hosts as they are kept, sorted, each once. Each is compared as it stands: a host does not include the hosts below it, and a host
    with a port is another one. Raises `BadRequest`.
    """
    if len(given) > MOST_HOSTS:
        raise BadRequest(f"metadata_hosts: at most {MOST_HOSTS}", words="field_list", values={"most": MOST_HOSTS})
    for at, host in enumerate(given):
        if len(host) > LONGEST_HOST or not _HOST.fullmatch(host):
            raise BadRequest(
                f"metadata_hosts[{at}]: the host of a document's address, such as claude.ai: small letters, no https://, no path, no *",
                words="metadata_host",
            )
    return tuple(sorted(set(given)))
