"""Networks that somebody lists: proxies, or those of a rule for risk. A list may have tens of thousands."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses

Network = IPv4Network | IPv6Network


class ListedNetworks:
    """A look-up is a binary search."""

    def __init__(self, networks: Iterable[Network]) -> None:
        known = [*networks]
        four = collapse_addresses(one for one in known if isinstance(one, IPv4Network))
        six = collapse_addresses(one for one in known if isinstance(one, IPv6Network))
        self._ends = {4: _ends([*four]), 6: _ends([*six])}

    def contain(self, version: int, first: int, last: int) -> bool:
        """Whether all addresses of this version from the first to the last are in one network, or in one that several make up."""
        firsts, lasts = self._ends[version]
        place = bisect_right(firsts, first) - 1
        return place >= 0 and last <= lasts[place]


def _ends(networks: Sequence[IPv4Network] | Sequence[IPv6Network]) -> tuple[Sequence[int], Sequence[int]]:
    """The first and the last address of each. They are in order, and none is part of another."""
    return [int(one.network_address) for one in networks], [int(one.broadcast_address) for one in networks]
