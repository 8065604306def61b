"""The client's IP address: the right-most address in `X-Forwarded-For` that is not the address of a trusted proxy."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

UNKNOWN = "unknown"
# The prefix of an IPv4 peer's address on a socket that serves both families.
_MAPPED = "::ffff:"


class ClientAddresses:
    """The client, or a proxy that is not trusted, has written the addresses further left, so these could be anything. Postern does not read
    `Forwarded` (RFC 7239): a proxy that sets one of the two headers usually passes the other header through unchanged, so reading both
    headers would let the client choose its address. Postern never takes scheme and host from a request: links use the configured base URL.
    """

    def __init__(self, trusted_proxies: Sequence[Network]) -> None:
        self._trusted_proxies = tuple(trusted_proxies)
        # Cached, since parsing an address costs more than the rest of `of`. There are few proxies, and the same clients come back.
        self._is_trusted = lru_cache(maxsize=4096)(self._is_in_networks)

    def of(self, peer: str | None, forwarded_for: bytes | None) -> str:
        """The client's address. `peer` is None for a Unix socket; a program that may open the socket counts as a trusted proxy."""
        nearest = UNKNOWN if peer is None else peer.removeprefix(_MAPPED)
        if forwarded_for is None or not self.is_ours(peer):
            return nearest
        for hop in reversed(forwarded_for.decode("latin-1").split(",")):
            address = _parse(hop.strip())
            if address is None:
                # A trusted proxy does not know its client's address. The last known address is the address of that proxy.
                return nearest
            nearest = str(address)
            if not self._is_trusted(nearest):
                return nearest
        return nearest

    def is_ours(self, peer: str | None) -> bool:
        """Whether this peer is a trusted proxy."""
        return peer is None or (bool(self._trusted_proxies) and self._is_trusted(peer.removeprefix(_MAPPED)))

    def _is_in_networks(self, text: str) -> bool:
        address = _parse(text)
        return address is not None and any(address in network for network in self._trusted_proxies)


def _parse(text: str) -> Address | None:
    """Parse an address with or without a port; IPv6 with or without brackets. IPv4 mapped into IPv6 becomes IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
