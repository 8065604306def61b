"""The addresses that we call when somebody else names the destination: public addresses, and those that the operator allows. Any other
address may belong to a machine that only we can reach.

The table follows IANA's registries of special-purpose addresses. We do not use the judgement of `ipaddress`, which calls `::127.0.0.1`,
`64:ff9b::7f00:1`, `2002:7f00:1::`, `fec0::1` and `224.1.1.1` global.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast (RFC 5771).
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, where clouds keep their metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunneling
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)

# All global unicast addresses are in this network; IANA has assigned no others.
_UNICAST_6: Final = IPv6Network("2000::/3")
# https://www.iana.org/assignments/iana-ipv6-special-registry, the part within `_UNICAST_6`.
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


def is_permitted(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether we may call the address. `allowed` are the networks that the operator permits besides public addresses."""
    return is_public(unwrapped(address)) or is_inside(address, allowed)


def is_inside(address: Address, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the operator's networks. A network of IPv4 also covers IPv6 addresses that lead to its addresses."""
    clothes = (address, unwrapped(address))
    return any(one in network for network in networks for one in clothes if one.version == network.version)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address in _UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to: mapped (RFC 4291), by NAT64 (RFC 6052), by 6to4 (RFC 3056). Any other address is
    returned as it is.
    """
    if isinstance(address, IPv4Address):
        return address
    number = int(address)
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    return address
