"""Networks that the operator lists as VPNs and proxies. People who come from such a network hide their place."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network
from pathlib import Path
from typing import Final

Network = IPv4Network | IPv6Network


class ProxyListUnusable(Exception):
    """The file cannot be read, or has a line that is not a network."""


class ListedProxies:
    """Implements `ports.identity.devices.Proxies`. A list may have tens of thousands of networks, so the look-up is a binary search."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._given = bool(networks)
        self._ranges = {
            4: _Ranges(collapse_addresses(one for one in networks if isinstance(one, IPv4Network))),
            6: _Ranges(collapse_addresses(one for one in networks if isinstance(one, IPv6Network))),
        }

    def contain(self, address: str | None) -> bool | None:
        if not self._given or address is None:
            return None
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return None
        return self._ranges[parsed.version].contain(int(parsed))


class _Ranges:
    def __init__(self, networks: Iterable[Network]) -> None:
        ordered = sorted((int(one.network_address), int(one.broadcast_address)) for one in networks)
        self._first = [first for first, _ in ordered]
        self._last = [last for _, last in ordered]

    def contain(self, number: int) -> bool:
        at = bisect_right(self._first, number) - 1
        return at >= 0 and number <= self._last[at]


_COMMENT: Final = "#"


def read_networks(file: Path) -> list[Network]:
    """One network or address on each line. Text after a `#` is a comment. Raises `ProxyListUnusable`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProxyListUnusable(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise ProxyListUnusable("it is not text") from None
    networks: list[Network] = []
    for number, line in enumerate(lines, 1):
        text = line.partition(_COMMENT)[0].strip()
        if text:
            try:
                networks.append(ip_network(text, strict=False))
            except ValueError:
                raise ProxyListUnusable(f"line {number} is no network") from None
    return networks
