"""Where requests come from: the recent load of each network and organization, and lists of networks."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, collapse_addresses, ip_address, ip_network
from math import exp, log2
from typing import Final

from core.domain.rate_limits import client_key
from core.frozen import Frozen

FADES_IN: Final = 600.0
MOST_PLACES: Final = 50_000
# Of a client without an address, or with one that is none.
UNKNOWN_NETWORK: Final = "unknown"
# The bits of a place that is just busier than usual: some 15 000 hashes, a few hundredths of a second on a desktop.
FIRST_BITS: Final = 14
# An IPv6 /48 has 256 times a /56, and often one customer. It has as many networks' shares.
WIDER: Final = 4
# A link to our pages may say anything where the slug stands.
_LONGEST_SLUG: Final = 64


class Traffic(StrEnum):
    """What is counted together."""

    MAILS = "mails"
    """Requests for a mail, from people who are not signed in."""
    FAILURES = "failures"
    """Sign-ins that failed."""


class _Usual(Frozen):
    """How much is usual at a place, and the most bits that it asks for."""

    level: float
    bits: int


# A stranger can make an organization or a network busy, and its people pay for it. So the wider a place, the less it may ask for.
_OF_ADDRESS: Final = {Traffic.MAILS: _Usual(20, 22), Traffic.FAILURES: _Usual(30, 22)}
_OF_NETWORK: Final = {Traffic.MAILS: _Usual(60, 20), Traffic.FAILURES: _Usual(90, 20)}
_OF_WIDER_NETWORK: Final = {Traffic.MAILS: _Usual(WIDER * 60, 20), Traffic.FAILURES: _Usual(WIDER * 90, 20)}
_OF_ORGANIZATION: Final = {Traffic.MAILS: _Usual(300, 18), Traffic.FAILURES: _Usual(450, 18)}


class Crossing(Frozen):
    """Where a request comes from, and the slug of the organization that it leads to; empty for the installation's own pages."""

    address: str | None
    organization: str = ""

    @property
    def network(self) -> str:
        """The IPv4 /24 or the IPv6 /56: what one customer of a provider often has at least a share of."""
        return network_of(self.address)

    @property
    def widest(self) -> str:
        """The IPv6 /48; the network itself of all others."""
        return wider_network_of(self.network) or self.network


class BusyPlaces:
    """Counts recent requests per network and organization, as far as this process remembers. The difficulty of a proof of work follows from
    it. The number of places is limited: the least recently used place is forgotten first.

    A count decays: after ten minutes about a third of it is left, after an hour next to nothing. Nothing is stored, and a process that
    restarts remembers nothing: quiet times cost no statement.
    """

    def __init__(self, most: int = MOST_PLACES) -> None:
        self._most = most
        self._levels: OrderedDict[tuple[Traffic, str], tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def count(self, traffic: Traffic, crossing: Crossing, now: float) -> None:
        for key, _ in _places(traffic, crossing):
            place = (traffic, key)
            self._levels[place] = (self._level(place, now) + 1, now)
            self._levels.move_to_end(place)
        while len(self._levels) > self._most:
            self._levels.popitem(last=False)

    def bits(self, traffic: Traffic, crossing: Crossing, now: float) -> int:
        """How many bits a request here has to solve now. 0 in quiet times."""
        return max(_bits(self._level((traffic, key), now), usual) for key, usual in _places(traffic, crossing))

    def _level(self, place: tuple[Traffic, str], now: float) -> float:
        level, at = self._levels.get(place, (0.0, now))
        return level * exp(min(0.0, at - now) / FADES_IN)


# Each request asks a few times, and people make several requests.
@lru_cache(maxsize=4096)
def network_of(address: str | None) -> str:
    """The IPv4 /24 or the IPv6 /56 around an address, as text."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return UNKNOWN_NETWORK
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ip_network((parsed, 56), strict=False))
        parsed = parsed.ipv4_mapped
    return str(ip_network((parsed, 24), strict=False))


def wider_network_of(network: str) -> str:
    """The IPv6 /48 around the /56 that `network_of` names. Empty for all others."""
    return str(ip_network(network).supernet(new_prefix=48)) if network.endswith("/56") else ""


def _places(traffic: Traffic, crossing: Crossing) -> tuple[tuple[str, _Usual], ...]:
    network = crossing.network
    wider = wider_network_of(network)
    return (
        (f"address {client_key(crossing.address or '')}", _OF_ADDRESS[traffic]),
        (f"network {network}", _OF_NETWORK[traffic]),
        *(((f"network {wider}", _OF_WIDER_NETWORK[traffic]),) if wider else ()),
        (f"organization {crossing.organization[:_LONGEST_SLUG]}", _OF_ORGANIZATION[traffic]),
    )


def _bits(level: float, usual: _Usual) -> int:
    """Twice as busy is two bits, four times the work."""
    return 0 if level <= usual.level else min(usual.bits, FIRST_BITS + int(2 * log2(level / usual.level)))


Network = IPv4Network | IPv6Network


class ListedNetworks:
    """Networks that an operator or a risk policy lists, such as proxies. A list may have tens of thousands. A look-up is a binary
    search.
    """

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
