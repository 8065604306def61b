"""Rate limits: token buckets, one per policy and key, in the process and, in SQL, across all processes."""

import ipaddress
from functools import lru_cache
from typing import Final

from core.frozen import Frozen


class RateLimit(Frozen):
    """`burst` requests at once, then one more every `seconds_per_request`."""

    name: str
    burst: int
    seconds_per_request: float


class Bucket(Frozen):
    """The tokens in a bucket at a moment. A full bucket need not be stored."""

    tokens: float
    at: float


def take(limit: RateLimit, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """Take one token. Returns the new bucket and the seconds to wait: 0 when there was a token."""
    tokens = float(limit.burst)
    if bucket is not None:
        gained = max(0.0, now - bucket.at) / limit.seconds_per_request
        tokens = min(float(limit.burst), bucket.tokens + gained)
    if tokens >= 1:
        return Bucket(tokens - 1, now), 0.0
    return Bucket(tokens, now), (1 - tokens) * limit.seconds_per_request


def give_back(limit: RateLimit, bucket: Bucket) -> Bucket:
    """Return a token that was taken for something that does not count after all."""
    return Bucket(min(float(limit.burst), bucket.tokens + 1), bucket.at)


class Place(Frozen):
    """A network that clients come from. All its clients together have `room` times one client's limit."""

    key: str
    room: int = 1

    def limit(self, limit: RateLimit) -> RateLimit:
        """The limit that all clients of this place share."""
        return limit if self.room == 1 else RateLimit(limit.name, limit.burst * self.room, limit.seconds_per_request / self.room)


# A customer of an IPv6 provider gets a /64 at least, often a /56, sometimes a /48: 256 or 65536 times the smallest network. The second
# number is how many clients' limits each network has.
_NETWORKS: Final = ((64, 1), (56, 4), (48, 16))


# Each request asks several times, and people make several requests.
@lru_cache(maxsize=4096)
def client_places(address: str) -> tuple[Place, ...]:
    """The places of a client: an IPv4 address, or an IPv6 /64 and the wider networks around it, the narrowest first. An IPv4 address mapped
    into IPv6 counts as the IPv4 address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return (Place("unknown"),)
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return (Place(str(parsed.ipv4_mapped)),)
        number = int(parsed)
        return tuple(
            Place(f"{ipaddress.IPv6Address(number >> (128 - length) << (128 - length))}/{length}", room) for length, room in _NETWORKS
        )
    return (Place(str(parsed)),)


def client_key(address: str) -> str:
    """Names a client by the narrowest of its places."""
    return client_places(address)[0].key
