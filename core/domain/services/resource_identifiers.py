"""How clients name and find an API: its resource identifier, its metadata, and its challenges."""

import json
import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

from core.domain.errors import BadRequest
from core.domain.services.clients import LOOPBACK
from core.frozen import Frozen

LONGEST_IDENTIFIER: Final = 500

# RFC 3986 section 2, without the characters that libraries encode differently: ' and *.
_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9._~!$&()+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?]*)(?P<path>[^?]*)(?P<query>\?.*)?")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?")
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
# Programs read a host name with such an end as an IPv4 address in an odd notation (WHATWG URL, "ends in a number").
_LIKE_A_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LARGEST_PORT: Final = 65_535
_DEFAULT_PORTS: Final = {"https": "443", "http": "80"}
_DOT_SEGMENT: Final = re.compile(r"(?:\.|%2[Ee]){1,2}")
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")


class ResourceIdentifier(Frozen):
    """The URI by which clients request tokens for an API (RFC 8707) and which the tokens name as their audience. `host` is a name, an IPv4
    address, or an IPv6 address in brackets.

    Identifiers are compared byte by byte. So an identifier is accepted only in the one form that every client writes: a client that
    normalizes URIs must send the bytes that are registered. For the same reason a path with a slash at its end and the same path without
    one are two identifiers, and an upper-case letter in a path is another letter.
    """

    text: str
    host: str

    @property
    def is_local(self) -> bool:
        """The address is this very machine's, whichever machine that is, so nobody can prove that it is theirs."""
        return self.host in LOOPBACK

    @property
    def is_name(self) -> bool:
        """The host is a name in DNS, so its owner can prove it."""
        return "." in self.host and not self.host.startswith("[") and not _LIKE_A_NUMBER.fullmatch(self.host)

    @property
    def key(self) -> str:
        """The identifiers with the same key look alike, so only one organization ever gets any of them. An encoded slash is like a slash:
        many proxies decode it before the API sees the path.
        """
        return self.text.lower().replace("%2f", "/").rstrip("/")


def resource_identifier(text: str) -> ResourceIdentifier:
    """Raises `BadRequest`, which says how to write the address."""
    if len(text) > LONGEST_IDENTIFIER:
        raise BadRequest(f"identifier: at most {LONGEST_IDENTIFIER} characters", words="text_too_long", values={"most": LONGEST_IDENTIFIER})
    if "#" in text:
        raise BadRequest("identifier: must not have a fragment (RFC 8707)", words="no_fragment")
    found = _URI.fullmatch(text) if _CHARACTERS.fullmatch(text) else None
    if found is None:
        raise BadRequest(
            "identifier: must be a URI such as https://api.example.com/orders, in the characters of RFC 3986, without * and '",
            words="resource_identifier_malformed",
        )
    if "@" in found["authority"]:
        raise BadRequest("identifier: must not contain a user name or password", words="no_password_in_address")
    host = _host(found["scheme"], found["authority"])
    _require_scheme(found["scheme"], host)
    _require_one_form(found["path"], found["query"])
    return ResourceIdentifier(text, host)


def _host(scheme: str, authority: str) -> str:
    split = _AUTHORITY.fullmatch(authority)
    host, port = (split["host"], split["port"]) if split else ("", None)
    if port is not None and (not _PORT.fullmatch(port) or int(port) > _LARGEST_PORT):
        raise BadRequest("identifier: the port must be a number from 1 to 65535, without a zero before it", words="resource_port")
    if port is not None and port == _DEFAULT_PORTS.get(scheme):
        raise BadRequest(
            f"identifier: omit :{port}, the default port of {scheme}: clients omit it, so the bytes would differ",
            words="resource_port",
        )
    if host != host.lower():
        raise BadRequest(
            "identifier: write the host in lowercase: clients do so, so the bytes would differ",
            words="resource_host_case",
        )
    if not _is_host(host):
        raise BadRequest(
            "identifier: the host must be a name such as api.example.com, without a trailing dot, or an IP address in its usual form",
            words="resource_host",
        )
    return host


def _is_host(host: str) -> bool:
    try:
        if host.startswith("["):
            return "%" not in host and f"[{IPv6Address(host[1:-1])}]" == host
        if _LIKE_A_NUMBER.fullmatch(host):
            return str(IPv4Address(host)) == host
    except AddressValueError:
        return False
    return _NAME.fullmatch(host) is not None


def _require_scheme(scheme: str, host: str) -> None:
    if scheme == "http" and host in LOOPBACK:
        return
    if scheme != "https":
        raise BadRequest("identifier: must begin with https://, or with http:// on localhost, 127.0.0.1 or [::1]", words="redirect_https")
    if host in LOOPBACK or _is_this_machine(host):
        raise BadRequest("identifier: a local identifier begins with http://localhost", words="resource_loopback")


def _is_this_machine(host: str) -> bool:
    if host.startswith("["):
        address = IPv6Address(host[1:-1])
        return address.is_loopback or address.is_unspecified or address.ipv4_mapped is not None
    if _LIKE_A_NUMBER.fullmatch(host):
        return IPv4Address(host).is_loopback or IPv4Address(host).is_unspecified
    return host.endswith(".localhost")


def _require_one_form(path: str, query: str | None) -> None:
    if not path:
        raise BadRequest(
            "identifier: add a slash after the host: clients that parse URLs add it, so the bytes would differ",
            words="resource_slash",
        )
    if "[" in path or "]" in path or "[" in (query or "") or "]" in (query or ""):
        raise BadRequest("identifier: brackets are only for IPv6 addresses", words="resource_path")
    if any(map(_DOT_SEGMENT.fullmatch, path.split("/"))):
        raise BadRequest(
            "identifier: the path must not have segments of one or two dots: clients resolve them, so the bytes would differ",
            words="resource_path",
        )
    if query == "?":
        raise BadRequest("identifier: omit the trailing ?: some clients omit it", words="resource_query")
    for code in _ENCODED.findall(path + (query or "")):
        letter = chr(int(code, 16))
        if code != code.upper() or _UNRESERVED.fullmatch(letter) or letter < " " or letter == "\x7f":
            raise BadRequest(
                "identifier: write encoded characters with capital letters, as in %2F, and letters, digits, -, ., _ and ~ as they are",
                words="resource_encoding",
            )


_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def metadata_address(identifier: str) -> str:
    """The address at which clients look for the document: between the host and the path (RFC 9728 section 3.1)."""
    parts = urlsplit(identifier)
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{path}{f'?{parts.query}' if parts.query else ''}"


def protected_resource_metadata(identifier: str, name: str, scopes: Sequence[str], issuer: str) -> str:
    """Returns the protected resource metadata (RFC 9728) that an API publishes so that clients find this installation, for people to read
    and copy.
    """
    document = {
        "resource": identifier,
        "authorization_servers": [issuer],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": name,
    }
    # An empty list says the same as none (RFC 9728 section 2), and some clients take it for a mistake.
    return json.dumps({name: value for name, value in document.items() if value}, ensure_ascii=False, indent=2)


def unauthorized(identifier: str, scopes: Sequence[str]) -> str:
    """One of the challenges with which an API answers a request without a sufficient token (RFC 6750, RFC 9470, RFC 9728).

    The header of a 401: no token, or none that is valid.
    """
    return f'WWW-Authenticate: Bearer resource_metadata="{metadata_address(identifier)}"{_scope(scopes)}'


def forbidden(identifier: str, scopes: Sequence[str]) -> str:
    """The header of a 403: the token lacks scopes. A client asks for all of these, so the header names all that the operation needs."""
    metadata = f'resource_metadata="{metadata_address(identifier)}"'
    return f'WWW-Authenticate: Bearer error="insufficient_scope"{_scope(scopes)}, {metadata}'


def insufficient_authentication(identifier: str, scope: str, acr_values: Sequence[str], max_age: int | None) -> str:
    """The header of a 401: the token has the scope, and its sign-in is too weak or too old for what the scope asks (RFC 9470). A client
    that does not know this error still asks for the scope again, and the scope leads the person to the proof.
    """
    parts = {
        "error": "insufficient_user_authentication",
        "acr_values": " ".join(acr_values),
        "max_age": "" if max_age is None else str(max_age),
        "scope": scope,
        "resource_metadata": metadata_address(identifier),
    }
    return "WWW-Authenticate: Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


def _scope(scopes: Sequence[str]) -> str:
    return f', scope="{" ".join(scopes)}"' if scopes else ""
