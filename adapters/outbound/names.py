"""Resolve names to addresses: by the machine's own list first, then by DNS. The queries run on Trio. `getaddrinfo` would hold a thread for
as long as a foreign name server takes to answer.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import trio

from core.domain.outbound import Address

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

HOSTS: Final = Path("/etc/hosts")
_PATIENCE: Final = 5.0


class Names(Protocol):
    async def addresses(self, host: str) -> Sequence[Address]:
        """All addresses of the host, IPv4 first. Empty when the name does not exist, or no name server answers."""


class SystemNames:
    """Reads the list of hosts and the resolver's configuration once. `resolver` is for tests."""

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
            answer = await self._resolver.resolve_name(dns.name.from_text(host), lifetime=_PATIENCE)
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
            answer = await self._resolver.resolve(dns.name.from_text(name), "TXT", lifetime=_PATIENCE)
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
