"""How tests reach a directory on this machine by a name of another network."""

import socket
import ssl
from typing import Any, Final
from uuid import UUID

import trio

from adapters.ldap.directories import TrioLdapDirectories
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.settings import NOTHING_DESCRIBED, LdapChange
from core.domain.secrets import Secret
from ports.outbound import Failure, OutboundFailed
from tests.ldap.fake import BASE, BIND_DN, BIND_PASSWORD

PROVIDER: Final = UpstreamProviderId(UUID(int=1))
HOST: Final = "dc1.example.org"
NAMES: Final = ("uid", "mail", "entryUUID", "memberOf")


async def dial(host: str, port: int) -> tuple[socket.socket, bool]:
    if host.startswith("nowhere"):
        raise OutboundFailed(Failure.UNRESOLVED)
    if host.startswith("forbidden"):
        raise OutboundFailed(Failure.REFUSED)
    try:
        return await trio.to_thread.run_sync(socket.create_connection, ("127.0.0.1", port)), False
    except OSError:
        raise OutboundFailed(Failure.UNREACHABLE) from None


async def trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def directories_at(address: str) -> TrioLdapDirectories:
    """Directories whose host has this address, whatever its name."""

    async def there(_host: str, port: int) -> tuple[socket.socket, bool]:
        return await trio.to_thread.run_sync(socket.create_connection, (address, port)), False

    return TrioLdapDirectories(there, trust)


def directories(reached_within: float = 5.0) -> TrioLdapDirectories:
    return TrioLdapDirectories(dial, trust, reached_within=reached_within)


def site(*ports: int, ca: str = "", password: str = BIND_PASSWORD, host: str = HOST, **changes: Any) -> LdapSite:
    scheme = "ldap" if changes.get("start_tls") else "ldaps"
    change = LdapChange(
        hosts=tuple(f"{scheme}://{host}:{port}" for port in ports),
        ca_certificates=ca,
        **{"bind_dn": BIND_DN, "base_dn": BASE, "person_filter": "(objectClass=person)", **changes},
    )
    return LdapSite(change.applied(NOTHING_DESCRIBED), Secret(password))
