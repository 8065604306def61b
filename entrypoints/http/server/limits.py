"""Limits against clients that are slow, large or many: by time, by pace and by IP address."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, Generic, TypeVar

from core.frozen import Frozen


class ServerSettings(Frozen):
    """An operator may change these limits of the HTTP server. All of them are in seconds and bytes."""

    # Common proxies keep an idle upstream connection for 60 s. Our timeout is longer, so that the proxy closes the connection and not we.
    keep_alive: float = 75.0
    # From the first byte of a request to the end of its head.
    head_patience: float = 10.0
    most_head_bytes: int = 16 * 1024
    # For a head, and for the trailers after a body.
    most_header_lines: int = 100
    # A client that sends a body or reads an answer has to move this many bytes a second, over any period of `silence` seconds: it may also
    # pause for that long. A whole transfer may take `transfer_patience`, and longer only as far as its bytes earn it.
    silence: float = 10.0
    transfer_patience: float = 20.0
    least_bytes_a_second: int = 1024
    handshake: float = 10.0
    # Our proxies bring many clients each, so the bound on connections per address does not apply to them.
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    most_connections: int = 12_000
    most_connections_per_address: int = 2_000
    # Requests that are being worked on. Those whose client is being waited for do not count.
    most_requests: int = 1_000
    # Paths that are answered even beyond `most_requests`.
    probes: frozenset[bytes] = frozenset()
    # Requests whose client has kept us waiting for longer than `prompt`. Beyond these limits, the request that has waited longest is given
    # up.
    most_waiting: int = 1_000
    most_waiting_per_address: int = 125
    prompt: float = 1.0
    # How long requests in flight may take once shutdown is asked for.
    drain: float = 4.0
    # How often lengthy requests are checked for a client that has left.
    watch_interval: float = 0.25
    # PEM files. With them every socket speaks TLS, and without them no socket does.
    certificate: Path | None = None
    certificate_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("TLS takes both a certificate and its key")


class Pace:
    """The pace of one body on its way to us, or of one answer on its way out.

    Our patience is one period long. Waiting uses patience up, each byte that moves gives some patience back, and patience never exceeds one
    period. So the client must keep the pace over any stretch longer than a period, and an earlier good pace does not help: a client that
    sends a byte every few seconds is closed like a silent one. Only waiting counts, not our own work in between.
    """

    __slots__ = ("_earned_by_byte", "_longest", "_patience", "_period")

    def __init__(self, settings: ServerSettings, moved: int = 0) -> None:
        self._period = settings.silence
        self._patience = settings.silence
        # The limit for the whole transfer, even at a good pace: a fixed time, plus what its bytes have earned.
        self._earned_by_byte = 1 / settings.least_bytes_a_second
        self._longest = settings.transfer_patience + moved * self._earned_by_byte

    @property
    def patience(self) -> float:
        """In seconds, from now on."""
        return min(self._patience, self._longest)

    def waited(self, seconds: float, moved: int) -> None:
        """Count a wait of `seconds`, in which `moved` bytes moved and earned time."""
        earned = moved * self._earned_by_byte
        self._patience = min(self._period, self._patience - seconds + earned)
        self._longest += earned - seconds


Guest = TypeVar("Guest")

# Prefix lengths of IPv6, and how many times the room of a single address each such network has.
_NETWORKS: Final = ((64, 1), (56, 2), (48, 4))
# The room of the widest network. A guest weighs this much in a single address, and less in a wide network, so that the weights of places
# can be compared.
_SCALE: Final = 4


class _Place(Generic[Guest]):
    """An address or a network, and the number of its guests. `resting` has the guests that could give way, the longest resting first."""

    __slots__ = ("name", "resting", "size", "weight")

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.weight = _SCALE // room
        self.size = 0
        self.resting: dict[Guest, None] = {}


class Guests(Generic[Guest]):
    """Counts connections by IP address, so that one address cannot take all the room, and the address with the most gives way first. An
    IPv4 address is one place. A customer of IPv6 gets at least a /64, often a /56 and sometimes a /48: each of the three is a place, and
    the wider networks have more room. Connections without an address (our own proxies, a Unix socket) belong to no place and are never
    asked to give way. Entering, leaving and giving way cost the same few steps for any number of connections, because an attack makes them
    many.

    At most `most_per_address` guests of an address, twice as many of an IPv6 /56, four times as many of a /48. A guest rests from the
    moment it enters until it is marked busy.
    """

    def __init__(self, most_per_address: int) -> None:
        self._most_weight = most_per_address * _SCALE
        self._places: dict[str, _Place[Guest]] = {}
        self._of: dict[Guest, tuple[_Place[Guest], ...]] = {}
        # Places by the weight of their guests, and the heaviest weight. With them, the guest that gives way first is found without a
        # search.
        self._by_weight: dict[int, dict[_Place[Guest], None]] = {}
        self._heaviest = 0

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Guest]:
        return iter(self._of)

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._of

    def enter(self, guest: Guest, address: str | None) -> None:
        places = tuple(self._place(*named) for named in _networks_of(address))
        self._of[guest] = places
        for place in places:
            self._grow(place, 1)
            place.resting[guest] = None

    def leave(self, guest: Guest) -> None:
        for place in self._of.pop(guest, ()):
            place.resting.pop(guest, None)
            self._grow(place, -1)
            if not place.size:
                del self._places[place.name]

    def busy(self, guest: Guest) -> None:
        """From now on the guest cannot be asked to give way."""
        for place in self._of.get(guest, ()):
            place.resting.pop(guest, None)

    def rests(self, guest: Guest) -> None:
        for place in self._of.get(guest, ()):
            place.resting[guest] = None

    def has_room(self, address: str | None) -> bool:
        """Whether one more guest from this address would stay within the bound."""
        return self._full_place(address) is None

    def longest_resting_of(self, address: str | None) -> Guest | None:
        """The guest that has rested longest in the place that is full for this address. None when all of them are busy."""
        place = self._full_place(address)
        return None if place is None else next(iter(place.resting), None)

    def longest_resting_of_greediest(self) -> Guest | None:
        """The guest that has rested longest in the heaviest place that has one at rest. None when all are busy."""
        # There are at most about as many different weights as the square root of the number of guests.
        for weight in sorted(self._by_weight, reverse=True):
            for place in self._by_weight[weight]:
                for guest in place.resting:
                    return guest
        return None

    @property
    def overcrowded(self) -> bool:
        """Whether some place exceeds its bound."""
        return self._heaviest > self._most_weight

    def _full_place(self, address: str | None) -> _Place[Guest] | None:
        for name, _ in _networks_of(address):
            place = self._places.get(name)
            if place is not None and (place.size + 1) * place.weight > self._most_weight:
                return place
        return None

    def _place(self, name: str, room: int) -> _Place[Guest]:
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = _Place(name, room)
        return place

    def _grow(self, place: _Place[Guest], change: int) -> None:
        if place.size:
            weight = place.size * place.weight
            alike = self._by_weight[weight]
            del alike[place]
            if not alike:
                del self._by_weight[weight]
        place.size += change
        if place.size:
            weight = place.size * place.weight
            self._by_weight.setdefault(weight, {})[place] = None
            self._heaviest = max(self._heaviest, weight)
        # The heaviest weight grows by at most the weight of one guest, so it falls by no more for each guest that leaves.
        while self._heaviest and self._heaviest not in self._by_weight:
            self._heaviest -= 1


@lru_cache(maxsize=4096)
def _networks_of(address: str | None) -> tuple[tuple[str, int], ...]:
    """The names of an address's places. With each name comes a factor: how many times the room of a single address the place has."""
    if address is None:
        return ()
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return ()
    if not isinstance(parsed, IPv6Address):
        return ((str(parsed), 1),)
    if parsed.ipv4_mapped is not None:
        return ((str(parsed.ipv4_mapped), 1),)
    number = int(parsed)
    return tuple((f"{number >> (128 - length):x}/{length}", room) for length, room in _NETWORKS)
