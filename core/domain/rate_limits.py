"""Rate limits: token buckets, by policy. The same arithmetic runs in the process and, in SQL, over all processes."""

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`burst` requests at once, then one more every `seconds_per_request`."""

    name: str
    burst: int
    seconds_per_request: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """How full a bucket was, and when. A full bucket need not be kept."""

    tokens: float
    at: float


def take(limit: RateLimit, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """Take one token. Returns the bucket as it is now and the seconds to wait: 0 when a token was there."""
    tokens = float(limit.burst)
    if bucket is not None:
        gained = max(0.0, now - bucket.at) / limit.seconds_per_request
        tokens = min(float(limit.burst), bucket.tokens + gained)
    if tokens >= 1:
        return Bucket(tokens - 1, now), 0.0
    return Bucket(tokens, now), (1 - tokens) * limit.seconds_per_request


def client_key(address: str) -> str:
    """One bucket per IPv4 address or IPv6 /64, the least that one customer of a provider gets. An IPv4 address mapped into IPv6 is the IPv4
    address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
