"""Network addresses as PostgreSQL keeps them."""

import ipaddress


def storable_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for what is no address. The zone of a link-local address means something on this machine only, and inet has no room for it."""
    if text is None:
        return None
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
