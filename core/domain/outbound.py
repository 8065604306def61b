"""Outbound requests to URLs that others name: the permitted IP addresses and URLs, clients' public keys, and metadata clients."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final
from urllib.parse import urlsplit

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.frozen import Frozen

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
    """Returns whether Postern may connect to the IP address when somebody else names the destination. `allowed` are the networks that the
    operator permits besides public addresses. Any other address may belong to a machine that only Postern can reach.
    """
    return is_public(unwrapped(address)) or is_inside(address, allowed)


def is_inside(address: Address, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the operator's networks. A network of IPv4 also covers IPv6 addresses that lead to its addresses."""
    clothes = (address, unwrapped(address))
    return any(one in network for network in networks for one in clothes if one.version == network.version)


def is_public(address: Address) -> bool:
    """Follows IANA's registries of special-purpose addresses. `ipaddress` does not serve: it calls `::127.0.0.1`, `64:ff9b::7f00:1`,
    `2002:7f00:1::`, `fec0::1` and `224.1.1.1` global.
    """
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
    """Parses an http or https URL. The rules are strict, so that no other parser can read another host out of an accepted URL. Raises
    `NotADestination`.
    """
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
        raise NotADestination("must contain a host name, or an IP address in its usual form") from None
    if len(text) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise NotADestination("must name a host; write a name with other letters in its ASCII form (xn--…)")
    return text


MOST_KEYS: Final = 10
# The limit for a published set, which may contain keys for other purposes, too.
MOST_PUBLISHED: Final = 50
LARGEST_SET: Final = 64 << 10
# The time in which a published set must arrive.
KEYS_PATIENCE: Final = timedelta(seconds=5)
# After this time a published set is read again. It is also read again when an assertion names a key that the set does not have.
KEYS_LIFETIME: Final = timedelta(hours=1)
LONGEST_KEY_ID: Final = 200
# In bytes. A smaller RSA key can be broken; a larger one costs too much processor time.
SMALLEST_MODULUS: Final = 256
LARGEST_MODULUS: Final = 512
_COORDINATE: Final = 32
# The additional members of a private or symmetric key (RFC 7518 section 6).
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
# The algorithms that each kind of key may be used with.
KEY_ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
ASSERTION_ALGORITHMS: Final = tuple(one for algorithms in KEY_ALGORITHMS.values() for one in algorithms)


def client_keys(given: Mapping[str, Any]) -> Mapping[str, Json]:
    """Checks the public keys for a client's assertions (RFC 7523): a JSON Web Key Set that the owners store here or publish at a URL.

    The set as it is stored: of each key only the members that verifying needs. Raises `BadRequest`.
    """
    keys = given.get("keys")
    if not isinstance(keys, list | tuple) or not 1 <= len(keys) <= MOST_KEYS:
        raise BadRequest(
            f"jwks: an object with `keys`, a list of 1 to {MOST_KEYS} public keys (RFC 7517)",
            words="jwks_malformed",
            values={"most": MOST_KEYS},
        )
    kept = [_key(key, f"jwks.keys[{at}]") for at, key in enumerate(keys)]
    ids = [key.get("kid") for key in kept]
    if len(kept) > 1 and (None in ids or len(set(ids)) < len(ids)):
        raise BadRequest("jwks: with several keys, each needs a unique `kid`", words="jwks_kid")
    return {"keys": kept}


def keys_destination(url: str) -> OutboundDestination:
    """The address of a published set. Raises `BadRequest`."""
    try:
        return destination(url)
    except NotADestination as refusal:
        raise BadRequest(f"jwks_uri: {refusal}", words="web_address") from None


def published_keys(status: int, body: bytes) -> Mapping[str, Json]:
    """The keys of a published set that can verify assertions. Keys for other purposes are ignored. Raises `BadRequest`."""
    if status != 200:
        raise BadRequest(f"jwks_uri: answers with status {status}", words="keys_status", values={"status": status})
    if len(body) > LARGEST_SET:
        raise BadRequest(
            f"jwks_uri: answers with more than {LARGEST_SET >> 10} KiB", words="keys_too_long", values={"most": LARGEST_SET >> 10}
        )
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("jwks_uri: does not answer with JSON", words="keys_not_published") from None
    keys = given.get("keys") if isinstance(given, dict) else None
    if not isinstance(keys, list):
        raise BadRequest("jwks_uri: does not answer with a JSON Web Key Set (RFC 7517)", words="keys_not_published")
    kept: dict[Any, dict[str, Json]] = {}
    for one in keys[:MOST_PUBLISHED]:
        try:
            key = _key(one, "jwks_uri")
        except BadRequest:
            continue
        kept.setdefault(key.get("kid"), key)
    if len(kept) > 1:
        # If a set has several keys, an assertion cannot name the key without an id.
        kept.pop(None, None)
    if not kept:
        raise BadRequest(
            "jwks_uri: publishes no RSA key of 2048 to 4096 bits, no EC key on P-256, and no OKP key on Ed25519, for signatures",
            words="keys_not_published",
        )
    return {"keys": list(kept.values())[:MOST_KEYS]}


def _key(given: Any, field: str) -> dict[str, Json]:
    if not isinstance(given, Mapping):
        raise BadRequest(f"{field}: must be an object", words="jwks_malformed", values={"most": MOST_KEYS})
    if not _PRIVATE.isdisjoint(given):
        raise BadRequest(
            f"{field}: contains a private key; send the public key only, and replace this key: it is compromised",
            words="private_key",
        )
    if given.get("use", "sig") != "sig":
        raise BadRequest(f"{field}: use must be sig", words="key_unsuitable")
    kind = given.get("kty")
    if kind == "RSA":
        numbers = {"n": _number(given, "n", field, SMALLEST_MODULUS, LARGEST_MODULUS), "e": _number(given, "e", field, 1, 4)}
    elif kind == "EC" and given.get("crv") == "P-256":
        numbers = {"crv": "P-256", **{name: _number(given, name, field, _COORDINATE, _COORDINATE) for name in ("x", "y")}}
    elif kind == "OKP" and given.get("crv") == "Ed25519":
        numbers = {"crv": "Ed25519", "x": _number(given, "x", field, _COORDINATE, _COORDINATE)}
    else:
        raise BadRequest(
            f"{field}: must be an RSA key of 2048 to 4096 bits, an EC key on P-256, or an OKP key on Ed25519", words="key_unsuitable"
        )
    key: dict[str, Json] = {"kty": kind, **numbers, "use": "sig"}
    if "alg" in given:
        if given["alg"] not in KEY_ALGORITHMS[kind]:
            raise BadRequest(f"{field}: alg must be {' or '.join(KEY_ALGORITHMS[kind])}", words="key_unsuitable")
        key["alg"] = given["alg"]
    if "kid" in given:
        key["kid"] = _key_id(given["kid"], field)
    return key


def _number(given: Mapping[str, Any], name: str, field: str, least: int, most: int) -> str:
    """A number in base64url (RFC 7518 section 6)."""
    text = given.get(name)
    if isinstance(text, str) and len(text) <= 4 * most and _BASE64URL.fullmatch(text) and len(text) % 4 != 1:
        length = len(urlsafe_b64decode(text + "=" * (-len(text) % 4)).lstrip(b"\0" if name in {"n", "e"} else b""))
        if least <= length <= most:
            return text
    raise BadRequest(f"{field}: {name} does not follow RFC 7518, or the size of the key is not accepted", words="key_unsuitable")


def _key_id(given: Any, field: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_KEY_ID or not given.isprintable():
        raise BadRequest(f"{field}: kid must be 1 to {LONGEST_KEY_ID} printable characters", words="jwks_kid")
    return given


MOST_HOSTS: Final = 50
LONGEST_HOST: Final = 260
# A name with a dot, in the form in which programs write it, and a port if it is not that of https.
_HOST: Final = re.compile(
    r"(?=.{1,253}(?::|\Z))[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
    r"\.[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::(?!443\Z)[1-9][0-9]{0,4})?"
)


class MetadataClients(StrEnum):
    """Which client ID metadata documents are allowed."""

    OFF = "off"
    """Nobody's."""
    NAMED = "named"
    """Those at the named hosts."""
    ANY = "any"
    """Everybody's: whoever can publish a document may ask people for their consent."""


class RegisteredClients(StrEnum):
    """Whether clients that registered themselves (dynamic client registration) are allowed. They can redirect to loopback URIs on people's
    own devices, and to the hosts of `metadata_hosts`.
    """

    OFF = "off"
    ON = "on"


class Provenance(Frozen):
    """What organizations and APIs judge a metadata client by, a client that nobody has registered. Most metadata clients are described by a
    document at an https URL of their own, which is their client ID. Open clients have none: what they stated at `POST /oauth/register` is
    their client ID. Organizations set whose documents they accept, and whether open clients, and so does each of their APIs; both must
    accept a client.
    """

    host: str | None
    """The host of its document. None for an open client."""
    leads_to: tuple[str, ...] = ()
    """The hosts to which an open client sends people, apart from their own devices."""


def is_metadata_host(host: str) -> bool:
    return len(host) <= LONGEST_HOST and _HOST.fullmatch(host) is not None


def metadata_hosts(given: Sequence[str]) -> tuple[str, ...]:
    """The hosts as they are kept, sorted, each once. Each is compared as it stands: a host does not include the hosts below it, and a host
    with a port is another one. Raises `BadRequest`.
    """
    if len(given) > MOST_HOSTS:
        raise BadRequest(f"metadata_hosts: at most {MOST_HOSTS}", words="field_list", values={"most": MOST_HOSTS})
    for at, host in enumerate(given):
        if not is_metadata_host(host):
            raise BadRequest(
                f"metadata_hosts[{at}]: the host of a document's URL, such as claude.ai: lowercase, no https://, no path, no *",
                words="metadata_host",
            )
    return tuple(sorted(set(given)))
