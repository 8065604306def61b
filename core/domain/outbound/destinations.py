"""Destinations of calls: http and https URLs. The rules are strict, so that no other program can read another host out
of an accepted URL.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

from core.domain.outbound.addresses import Address
from core.frozen import Frozen

LONGEST_URL: Final = 2000
_PORTS: Final = {"http": 80, "https": 443}
# Visible ASCII. `_FORBIDDEN` has the characters that some parsers of URLs take for a slash, or ignore.
_PLAIN: Final = re.compile(r"[!-~]+")
_FORBIDDEN: Final = re.compile(r'[\\^`{|}<>"#]')
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Some parsers take a name whose last label looks like a number for an address: 127.1, 0x7f.0.0.1, 2130706433.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LONGEST_NAME: Final = 253


class NotADestination(ValueError):
    """The message completes a sentence that begins with the field's name."""


class OutboundDestination(Frozen):
    """`host` is a name, or an address without brackets. `target` is the path and the query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def address(self) -> Address | None:
        """None when the host is a name."""
        return address_of(self.host)

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def destination(text: str) -> OutboundDestination:
    """Raises `NotADestination`."""
    if len(text) > LONGEST_URL:
        raise NotADestination(f"must have at most {LONGEST_URL} characters")
    if not text.lower().startswith(("http://", "https://")):
        raise NotADestination("must start with http:// or https://")
    if not _PLAIN.fullmatch(text) or _FORBIDDEN.search(text):
        raise NotADestination("must be a URL without spaces, fragments and characters that need encoding")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise NotADestination("must be a URL") from None
    if "@" in parts.netloc:
        raise NotADestination("must not contain a user name or password")
    host, port = _split(parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return OutboundDestination(parts.scheme, _host(host.lower()), _PORTS[parts.scheme] if port is None else port, target)


def host(text: str) -> str:
    """The host of a server that is named without a URL: a name, or an address; an IPv6 address may have brackets.
    Raises `NotADestination`.
    """
    if not _PLAIN.fullmatch(text):
        raise NotADestination("must name a host, without spaces")
    return _host((f"[{text}]" if ":" in text and "[" not in text else text).lower())


def address_of(named: str) -> Address | None:
    """The address, if the host is one. None when the host is a name."""
    if ":" in named:
        return IPv6Address(named)
    return IPv4Address(named) if _NUMBER.fullmatch(named.rpartition(".")[2]) else None


def _split(authority: str) -> tuple[str, int | None]:
    bracket = authority.rfind("]")
    colon = authority.find(":", bracket + 1)
    if colon == -1:
        return authority, None
    port = authority[colon + 1 :]
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise NotADestination("must have a port from 1 to 65535, or none")
    return authority[:colon], int(port)


def _host(text: str) -> str:
    try:
        if text.startswith("[") and text.endswith("]"):
            if "%" in text:
                raise NotADestination("must not name an interface")
            return str(IPv6Address(text[1:-1]))
        labels = text.split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return str(IPv4Address(text))
    except AddressValueError:
        raise NotADestination("must name a host, or an address in its usual form") from None
    if len(text) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise NotADestination("must name a host; write a name with other letters in its ASCII form (xn--…)")
    return text
