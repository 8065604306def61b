"""Resolves names, and opens connections to permitted IP addresses only."""

import os
import socket
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpcore
import structlog
import trio

from core.domain.outbound import Address, Network, is_inside, is_permitted, unwrapped
from core.domain.secrets import Secret
from ports.outbound import Failure, OutboundFailed

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

log = structlog.get_logger()


HOSTS: Final = Path("/etc/hosts")
_NAME_PATIENCE: Final = 5.0


class Names(Protocol):
    async def addresses(self, host: str) -> Sequence[Address]:
        """All addresses of the host, IPv4 first. Empty when the name does not exist, or no name server answers."""


class SystemNames:
    """Resolves names to IP addresses: by the machine's own list first, then by DNS. The queries run on Trio. `getaddrinfo` would hold a
    thread for as long as a foreign name server takes to respond.

    Reads the list of hosts and the resolver's configuration once. `resolver` is for tests.
    """

    def __init__(self, hosts: Path = HOSTS, resolver: "Resolver | None" = None) -> None:
        self._file = hosts
        self._resolver = resolver
        self._hosts: Mapping[str, Sequence[Address]] | None = None
        self._first = trio.Lock()

    async def addresses(self, host: str) -> Sequence[Address]:
        hosts = await self._prepare()
        own = hosts.get(host)
        if own is not None or self._resolver is None:
            return own or ()
        import dns.exception  # noqa: PLC0415 - imported by now
        import dns.name  # noqa: PLC0415

        try:
            # The name is absolute, so the machine's search list is not applied.
            answer = await self._resolver.resolve_name(dns.name.from_text(host), lifetime=_NAME_PATIENCE)
        except dns.exception.DNSException:
            return ()
        return sorted(map(ip_address, answer.addresses()), key=lambda address: not isinstance(address, IPv4Address))

    async def texts(self, name: str) -> Sequence[str] | None:
        """Implements `ports.outbound.TextRecords`."""
        await self._prepare()
        if self._resolver is None:
            return ()
        import dns.exception  # noqa: PLC0415 - imported by now
        import dns.name  # noqa: PLC0415
        import dns.resolver  # noqa: PLC0415

        try:
            answer = await self._resolver.resolve(dns.name.from_text(name), "TXT", lifetime=_NAME_PATIENCE)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return ()
        except dns.exception.DNSException:
            return None
        # A record is a list of strings of 255 bytes at most; a longer text is written as several.
        return [b"".join(record.strings).decode("ascii", "replace") for record in answer]

    async def _prepare(self) -> Mapping[str, Sequence[Address]]:
        async with self._first:
            if self._hosts is None:
                # In a thread, because importing the library takes a tenth of a second.
                hosts, self._resolver = await trio.to_thread.run_sync(_prepared, self._file, self._resolver)
                self._hosts = hosts
            else:
                hosts = self._hosts
        return hosts


def _prepared(file: Path, resolver: "Resolver | None") -> "tuple[Mapping[str, Sequence[Address]], Resolver | None]":
    import dns.asyncresolver  # noqa: PLC0415 - on first use
    import dns.resolver  # noqa: PLC0415

    if resolver is None:
        try:
            resolver = dns.asyncresolver.Resolver()
        except dns.resolver.NoResolverConfiguration:
            # A machine without name servers still has its list of hosts.
            resolver = None
    return _read(file), resolver


def _read(file: Path) -> Mapping[str, Sequence[Address]]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    known: dict[str, list[Address]] = {}
    for line in lines:
        address, *names = line.partition("#")[0].split() or [""]
        try:
            listed = ip_address(address)
        except ValueError:
            continue
        for name in names:
            known.setdefault(name.lower(), []).append(listed)
    return known


EVERYWHERE: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""For destinations that the operator names."""
# In seconds, before the next address is tried. The last address has the whole rest of the deadline.
_PATIENCE: Final = 2.0
_LONGEST_HEAD: Final = 8192


class Dialer(httpcore.AsyncNetworkBackend):
    """Opens connections to checked IP addresses only. A name is resolved once, all its addresses are checked, and the connection goes to
    one of the checked addresses. So a name that resolves to another address a moment later changes nothing.

    httpcore makes all its connections through this class. httpcore resolves no names itself, so no connection goes past the checks.
    `network` is for tests.
    """

    def __init__(
        self,
        names: Names,
        allowed: Sequence[Network] = (),
        proxy: Secret | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._names = names
        self._allowed = tuple(allowed)
        self._proxy = proxy
        self._network = network or httpcore.TrioBackend()

    def permits(self, address: Address) -> bool:
        return is_permitted(address, self._allowed)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own; the client has one deadline over all
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises `OutboundFailed`."""
        del timeout, local_address, socket_options
        return await self._first(await self._checked(host), port)

    async def connect(self, host: str, port: int) -> tuple[socket.socket, bool]:
        """A socket for a library with its own protocol, and whether the connection stays on this machine. The caller closes the socket.
        Raises `OutboundFailed`.
        """
        addresses = await self._checked(host)
        stream = await self._first(addresses, port)
        try:
            opened = socket.socket(fileno=os.dup(stream.get_extra_info("socket").fileno()))
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()
        return opened, self._proxy is None and all(unwrapped(address).is_loopback for address in addresses)

    async def _checked(self, host: str) -> Sequence[Address]:
        addresses = await self._resolved(host)
        for address in addresses:
            if not self.permits(address):
                log.warning("outbound_refused", host=host, address=str(address))
                raise OutboundFailed(Failure.REFUSED)
        return addresses

    async def _resolved(self, host: str) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            found = await self._names.addresses(host)
        if not found:
            raise OutboundFailed(Failure.UNRESOLVED)
        return found

    async def _first(self, addresses: Sequence[Address], port: int) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that answers."""
        *others, last = addresses
        for address in others:
            with trio.move_on_after(_PATIENCE):
                try:
                    return await self._connected(address, port)
                except OutboundFailed:
                    pass
        return await self._connected(last, port)

    async def _connected(self, address: Address, port: int) -> httpcore.AsyncNetworkStream:
        try:
            if self._proxy is None:
                return await self._network.connect_tcp(str(address), port)
            return await self._through(
                urlsplit(self._proxy.reveal()), f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
            )
        except (httpcore.NetworkError, httpcore.TimeoutException):
            raise OutboundFailed(Failure.UNREACHABLE) from None

    async def _through(self, proxy: Any, target: str) -> httpcore.AsyncNetworkStream:
        """Asks the operator's proxy for a connection to the checked address (RFC 9110 section 9.3.6). The proxy itself is not checked."""
        addresses = await self._resolved(proxy.hostname)
        stream = await self._network.connect_tcp(str(addresses[0]), proxy.port or 3128)
        try:
            lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
            if proxy.username is not None:
                who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
                lines.append(f"Proxy-Authorization: Basic {b64encode(who.encode()).decode()}")
            await stream.write("\r\n".join([*lines, "", ""]).encode())
            await _require_tunnel(stream)
        except BaseException:
            with trio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream


class DialerInside(Dialer):
    """For calls without encryption. Permits only addresses in networks that the operator has allowed, and no public addresses besides."""

    def permits(self, address: Address) -> bool:
        return is_inside(address, self._allowed)


async def _require_tunnel(stream: httpcore.AsyncNetworkStream) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        received = await stream.read(_LONGEST_HEAD)
        head += received
        if not received or len(head) > _LONGEST_HEAD:
            raise OutboundFailed(Failure.UNREACHABLE)
    # Bytes after the head would come from the destination, but nothing was sent to the destination yet.
    if head.split(b" ", 2)[1:2] != [b"200"] or not head.endswith(b"\r\n\r\n"):
        # One line a call: the watcher of deliveries warns, once a minute.
        log.info("outbound_proxy_refused", answer=head.partition(b"\r\n")[0].decode("ascii", "replace"))
        raise OutboundFailed(Failure.UNREACHABLE)
