"""The address that a proof names, compared with that of the request (RFC 9449 section 4.3, RFC 3986 section 6.2)."""

import re
from typing import Final
from urllib.parse import quote

LONGEST_ADDRESS: Final = 2000
# The characters of RFC 3986, without `[` and `]` outside the host. A user name before the host is none of ours.
_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@/%-]*)?(?:\?[^#\s]*)?(?:#\S*)?",
    re.IGNORECASE,
)
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_STANDS_PLAIN: Final = "/!$&'()*+,;=:@"
_PORTS: Final = {"http": "80", "https": "443"}


def names(address: str, origin: str, path: str) -> bool:
    """Whether the address is that of a request to this path of the origin, by any query and fragment. Scheme and host count in any case,
    the port of the scheme may be left out, and letters may be percent-encoded. Whatever else differs is another address: a slash more, a
    segment `..`, or another form of the same IPv6 address.
    """
    stated = _normal(address)
    return stated is not None and stated == _normal(origin + quote(path, safe=_STANDS_PLAIN))


def _normal(address: str) -> tuple[str, str, str, str] | None:
    found = None if len(address) > LONGEST_ADDRESS else _ADDRESS.fullmatch(address)
    if found is None:
        return None
    scheme = found["scheme"].lower()
    return scheme, found["host"].lower(), found["port"] or _PORTS[scheme], _ENCODED.sub(_plain, found["path"] or "/")


def _plain(encoded: re.Match[str]) -> str:
    letter = chr(int(encoded[1], 16))
    return letter if letter in _UNRESERVED else f"%{encoded[1].upper()}"
