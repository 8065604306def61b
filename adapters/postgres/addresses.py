"""Network addresses as PostgreSQL keeps them."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=1024)
def storable_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for text that is not an address. The zone of a link-local address has a meaning only on this machine, and inet has no room for
    it.
    """
    if text is None:
        return None
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
