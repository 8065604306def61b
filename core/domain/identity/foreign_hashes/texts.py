"""Parses password hashes that other systems write into one text."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from core.domain.identity.foreign_hashes.hashes import LONGEST_TEXT, ForeignHash, HashKind, HashRefused, from_base64

UNKNOWN: Final = "The hash has no form that Postern knows, or is malformed"
_UNREAD: Final[Sequence[tuple[str, str]]] = (
    (r"\*[0-9A-F]{40}\Z", "The hash is of MySQL, which is not read"),
    (r"[!*]", "There is no password: the text begins as one that was switched off"),
    (r"\$1\$", "The hash is $1$, md5-crypt, which is not read"),
    (r"\$apr1\$", "The hash is $apr1$, Apache's MD5, which is not read"),
    (r"\$md5[$,]", "The hash is $md5, Sun's MD5, which is not read"),
    (r"\$sha1\$", "The hash is $sha1$, NetBSD's crypt, which is not read"),
    (r"\$g?y\$", "The hash is $y$, yescrypt, which is not read"),
    (r"\$7\$", "The hash is $7$, scrypt's own crypt, which is not read"),
    (r"\$S\$", "The hash is $S$, Drupal 7, which is not read"),
    (r"\$3\$", "The hash is $3$, of Windows NT, which is not read"),
    (r"\$p5k2\$", "The hash is $p5k2$, PBKDF2 in Dwayne Litzenberger's form, which is not read"),
    (r"grub\.", "The hash is grub., PBKDF2 as GRUB has it, which is not read"),
    (r"\{FSHP", "The hash is {FSHP}, the Fairly Secure Hashed Password, which is not read"),
    (r"md5\$", "The hash is md5$, Django's MD5, which is not read"),
    (r"sha1\$", "The hash is sha1$, Django's SHA-1, which is not read"),
    (r"\{S?MD5\}", "The hash is {MD5} or {SMD5}, which is not read"),
    (r"\{SHA\}", "The hash is {SHA}, SHA-1 without a salt, which is not read"),
    (r"\{noop\}", "The text is {noop}, a password as it was typed, which is not read"),
    (r"[0-9A-Fa-f]{32}\Z", "The hash is 32 hexadecimal digits, as of MD5, which is not read"),
    (r"[0-9A-Fa-f]{40}\Z", "The hash is 40 hexadecimal digits, as of SHA-1 without a salt, which is not read"),
    (r"[0-9A-Fa-f]{64}\Z", "The hash is 64 hexadecimal digits, as of SHA-256 without a salt, which is not read"),
    (r"[0-9A-Fa-f]{128}\Z", "The hash is 128 hexadecimal digits: --hash says how it was made"),
    (r"[0-9A-Fa-f]{8,}[:.][0-9A-Fa-f]{8,}\Z", "The hash is two texts of hexadecimal digits: --hash says how they were made"),
)


def unread(text: str) -> str:
    """What a report says of a hash that has no form of ours.

    It recognizes forms of hashes that Postern does not read by their beginnings, so that a report tells which of them a file has. A text
    that is no hash could be a password, so nothing of it is repeated but marks of this list.
    """
    return next((words for mark, words in _UNREAD if re.match(mark, text)), UNKNOWN)


_PBKDF2: Final[Mapping[str, HashKind]] = {
    "": HashKind.PBKDF2_SHA1,
    "sha1": HashKind.PBKDF2_SHA1,
    "sha256": HashKind.PBKDF2_SHA256,
    "sha512": HashKind.PBKDF2_SHA512,
}
_SSHA: Final[Mapping[str, tuple[HashKind, int]]] = {
    "SSHA": (HashKind.SSHA, 20),
    "SSHA256": (HashKind.SSHA256, 32),
    "SSHA512": (HashKind.SSHA512, 64),
}
_ARGON2: Final[Mapping[str, HashKind]] = {"i": HashKind.ARGON2I, "d": HashKind.ARGON2D, "id": HashKind.ARGON2ID}


def foreign_hash(text: str) -> ForeignHash:
    """Reads a hash that names its kind and its parameters, in the form of crypt, of the PHC string, of Django, passlib, werkzeug, LDAP or
    ASP.NET Identity. Raises `HashRefused` for what has another form, is malformed, or is out of bounds.
    """
    if len(text) > LONGEST_TEXT:
        raise HashRefused(f"The hash has more than {LONGEST_TEXT} characters")
    if not text:
        raise HashRefused("The hash is empty")
    if not text.isascii() or not text.isprintable():
        raise HashRefused("The hash has characters other than printable ASCII")
    text = _WRAPPERS.sub("", text)
    for form, read in _FORMS:
        found = form.fullmatch(text)
        if found is not None:
            return read(*(group or "" for group in found.groups()))
    raise HashRefused(unread(text))


def pbkdf2(digest: str, iterations: int, salt: bytes, raw: bytes) -> ForeignHash:
    """`digest` is the name of the inner hash, such as `sha256`. Raises `HashRefused`."""
    kind = _PBKDF2.get(digest)
    if kind is None:
        raise HashRefused("PBKDF2 is checked with SHA-1, SHA-256 and SHA-512 alone")
    return ForeignHash.of(kind, {"i": iterations}, salt, raw)


def scrypt(cost: int, block: int, lanes: int, salt: bytes, raw: bytes) -> ForeignHash:
    """`cost` is scrypt's N. Raises `HashRefused`."""
    if cost < 2 or cost & (cost - 1):
        raise HashRefused("The scrypt hash has a cost that is no power of two")
    return ForeignHash.of(HashKind.SCRYPT, {"ln": cost.bit_length() - 1, "r": block, "p": lanes}, salt, raw)


def argon2(variant: str, numbers: Mapping[str, int], salt: bytes, raw: bytes) -> ForeignHash:
    """`variant` is `i`, `d` or `id`. Raises `HashRefused`."""
    kind = _ARGON2.get(variant)
    if kind is None:
        raise HashRefused("Argon2 has the variants i, d and id alone")
    return ForeignHash.of(kind, numbers, salt, raw)


def from_hex(text: str) -> bytes:
    """Raises `HashRefused`."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise HashRefused("The hash is not in hexadecimal digits") from None


def _bcrypt(cost: str, salt: str, raw: str) -> ForeignHash:
    return _any_bcrypt(HashKind.BCRYPT, cost, salt, raw)


def _bcrypt_of_hexadecimal(cost: str, salt: str, raw: str) -> ForeignHash:
    return _any_bcrypt(HashKind.BCRYPT_SHA256, cost, salt, raw)


def _bcrypt_of_hmac(cost: str, salt: str, raw: str) -> ForeignHash:
    return _any_bcrypt(HashKind.BCRYPT_HMAC_SHA256, cost, salt, raw)


def _any_bcrypt(kind: HashKind, cost: str, salt: str, raw: str) -> ForeignHash:
    return ForeignHash.of(kind, {"r": int(cost)}, _of_bcrypt(salt), _of_bcrypt(raw))


def _bcrypt_of_wordpress(cost: str, salt: str, raw: str) -> ForeignHash:
    return _any_bcrypt(HashKind.BCRYPT_HMAC_SHA384, cost, salt, raw)


def _pbkdf2_of_django(digest: str, iterations: str, salt: str, raw: str) -> ForeignHash:
    return pbkdf2(digest, int(iterations), salt.encode(), from_base64(raw))


def _pbkdf2_of_passlib(digest: str, iterations: str, salt: str, raw: str) -> ForeignHash:
    return pbkdf2(digest, int(iterations), _of_passlib(salt), _of_passlib(raw))


def _pbkdf2_of_ldap(digest: str, iterations: str, salt: str, raw: str) -> ForeignHash:
    return _pbkdf2_of_passlib(digest.lower(), iterations, salt, raw)


def _pbkdf2_of_werkzeug(digest: str, iterations: str, salt: str, raw: str) -> ForeignHash:
    return pbkdf2(digest, int(iterations), salt.encode(), from_hex(raw))


def _pbkdf2_of_atlassian(rest: str) -> ForeignHash:
    raw = from_base64(rest)
    return pbkdf2("sha1", 10_000, raw[:16], raw[16:])


def _scrypt_of_phc(logarithm: str, block: str, lanes: str, salt: str, raw: str) -> ForeignHash:
    return ForeignHash.of(HashKind.SCRYPT, {"ln": int(logarithm), "r": int(block), "p": int(lanes)}, from_base64(salt), from_base64(raw))


def _scrypt_of_django(cost: str, salt: str, block: str, lanes: str, raw: str) -> ForeignHash:
    return scrypt(int(cost), int(block), int(lanes), salt.encode(), from_base64(raw))


def _scrypt_of_werkzeug(cost: str, block: str, lanes: str, salt: str, raw: str) -> ForeignHash:
    return scrypt(int(cost), int(block), int(lanes), salt.encode(), from_hex(raw))


def _scrypt_header(rest: str) -> ForeignHash:
    """The header of a file: scrypt, 0, the logarithm of the cost, block, lanes, salt, a checksum; then the header's HMAC."""
    raw = from_base64(rest)
    if len(raw) != _LENGTH_OF_HEADER or raw[6] != 0 or sha256(raw[:48]).digest()[:16] != raw[48:64]:
        raise HashRefused("The hash is malformed: its checksum is another")
    block, lanes = (int.from_bytes(raw[at : at + 4], "big") for at in (8, 12))
    return ForeignHash.of(HashKind.SCRYPT_HEADER, {"ln": raw[7], "r": block, "p": lanes}, raw[16:48], raw[64:])


def _argon2_of_phc(variant: str, version: str, costs: str, salt: str, raw: str) -> ForeignHash:
    numbers = {cost[0]: int(cost[2:]) for cost in costs.split(",")}
    if len(numbers) != len(_COSTS_OF_ARGON2):
        raise HashRefused("The hash is malformed: it names one of m, t and p twice")
    # The first version of Argon2 wrote no version.
    return argon2(variant, {"v": int(version or "16"), **numbers}, from_base64(salt), from_base64(raw))


def _sha_crypt(digest: str, rounds: str, salt: str, raw: str) -> ForeignHash:
    kind, order = (HashKind.SHA256_CRYPT, _ORDER_OF_SHA256) if digest == "5" else (HashKind.SHA512_CRYPT, _ORDER_OF_SHA512)
    return ForeignHash.of(kind, {"i": int(rounds or "5000")}, salt.encode(), _of_crypt(raw, order))


def _phpass(cost: str, salt: str, raw: str) -> ForeignHash:
    return ForeignHash.of(HashKind.PHPASS, {"ln": _CRYPTS.index(cost)}, salt.encode(), _of_crypt(raw, _ORDER_OF_PHPASS))


def _ssha(scheme: str, rest: str) -> ForeignHash:
    kind, width = _SSHA[scheme.upper()]
    raw = from_base64(rest)
    return ForeignHash.of(kind, {}, raw[width:], raw[:width])


def _identity(rest: str) -> ForeignHash:
    """ASP.NET Identity. Version 2: 0, salt, digest. Version 3: 1, the digest's number, the iterations, the salt's length, salt, digest."""
    raw = from_base64(rest)
    if len(raw) == 49 and raw[0] == 0:
        return pbkdf2("sha1", 1000, raw[1:17], raw[17:])
    if len(raw) < 13 or raw[0] != 1:
        raise HashRefused(UNKNOWN)
    digest, iterations, width = (int.from_bytes(raw[at : at + 4], "big") for at in (1, 5, 9))
    name = {0: "sha1", 1: "sha256", 2: "sha512"}.get(digest, "unknown")
    return pbkdf2(name, iterations, raw[13 : 13 + width], raw[13 + width :])


_NUMBER: Final = r"([0-9]{1,10})"
_BASE64: Final = r"([A-Za-z0-9+/]+={0,2})"
_PASSLIBS: Final = r"([A-Za-z0-9./+]+)"
_OF_BCRYPT: Final = r"([./A-Za-z0-9]{22})"
# Names of schemes in front of a hash that names its kind itself.
_COSTS_OF_ARGON2: Final = "mtp"
_COST: Final = r"[mtp]=[0-9]{1,10}"
_LENGTH_OF_HEADER: Final = 96
_WRAPPERS: Final = re.compile(r"\A(?:\{(?i:crypt|bcrypt|argon2)\}|bcrypt\$(?=\$2)|argon2(?=\$argon2))")

_FORMS: Final[Sequence[tuple[re.Pattern[str], Callable[..., ForeignHash]]]] = [
    (re.compile(rf"\$2[aby]\$([0-9]{{2}})\${_OF_BCRYPT}([./A-Za-z0-9]{{31}})"), _bcrypt),
    (re.compile(rf"bcrypt_sha256\$\$2[aby]\$([0-9]{{2}})\${_OF_BCRYPT}([./A-Za-z0-9]{{31}})"), _bcrypt_of_hexadecimal),
    (re.compile(rf"\$bcrypt-sha256\$v=2,t=2[aby],r=([0-9]{{1,2}})\${_OF_BCRYPT}\$([./A-Za-z0-9]{{31}})"), _bcrypt_of_hmac),
    (re.compile(rf"pbkdf2_(sha1|sha256)\${_NUMBER}\$([^$]*)\${_BASE64}"), _pbkdf2_of_django),
    (re.compile(rf"\$pbkdf2(?:-(sha1|sha256|sha512))?\${_NUMBER}\${_PASSLIBS}\${_PASSLIBS}"), _pbkdf2_of_passlib),
    # Auth0 names the length, too.
    (re.compile(rf"\$pbkdf2-(sha1|sha256|sha512)\$i={_NUMBER}(?:,l=[0-9]{{1,10}})?\${_BASE64}\${_BASE64}"), _pbkdf2_of_passlib),
    (re.compile(rf"\{{PBKDF2(?:-(SHA1|SHA256|SHA512))?\}}{_NUMBER}\${_PASSLIBS}\${_PASSLIBS}"), _pbkdf2_of_ldap),
    (re.compile(rf"pbkdf2:(sha1|sha256|sha512):{_NUMBER}\$([^$]*)\$([0-9a-f]+)"), _pbkdf2_of_werkzeug),
    (re.compile(rf"\$scrypt\$ln={_NUMBER},r={_NUMBER},p={_NUMBER}\${_BASE64}\${_BASE64}"), _scrypt_of_phc),
    (re.compile(rf"scrypt\${_NUMBER}\$([^$]*)\${_NUMBER}\${_NUMBER}\${_BASE64}"), _scrypt_of_django),
    (re.compile(rf"scrypt:{_NUMBER}:{_NUMBER}:{_NUMBER}\$([^$]*)\$([0-9a-f]+)"), _scrypt_of_werkzeug),
    (
        re.compile(rf"\$argon2(i|d|id)(?:\$v={_NUMBER})?\$({_COST},{_COST},{_COST})\${_BASE64}\${_BASE64}"),
        _argon2_of_phc,
    ),
    (re.compile(rf"\$(5)\$(?:rounds={_NUMBER}\$)?([^$]{{0,16}})\$([./0-9A-Za-z]{{43}})"), _sha_crypt),
    (re.compile(rf"\$(6)\$(?:rounds={_NUMBER}\$)?([^$]{{0,16}})\$([./0-9A-Za-z]{{86}})"), _sha_crypt),
    (re.compile(rf"\{{((?i:SSHA(?:256|512)?))\}}{_BASE64}"), _ssha),
    (re.compile(rf"\$wp\$2[aby]\$([0-9]{{2}})\${_OF_BCRYPT}([./A-Za-z0-9]{{31}})"), _bcrypt_of_wordpress),
    (re.compile(r"\$[PH]\$([./0-9A-Za-z])([./0-9A-Za-z]{8})([./0-9A-Za-z]{22})"), _phpass),
    (re.compile(rf"\{{PKCS5S2\}}{_BASE64}"), _pbkdf2_of_atlassian),
    # "scrypt" and a zero.
    (re.compile(r"(c2NyeXB0A[A-Za-z0-9+/]+={0,2})"), _scrypt_header),
    (re.compile(r"(A[A-Za-z0-9+/]{16,}={0,2})"), _identity),
]

_STANDARD: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FROM_BCRYPT: Final = str.maketrans("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", _STANDARD)
_CRYPTS: Final = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _of_bcrypt(text: str) -> bytes:
    """The base64 of bcrypt has an order of its own, and what its last character has too much says nothing."""
    return b64decode(text.translate(_FROM_BCRYPT) + "=" * (-len(text) % 4))


def _of_passlib(text: str) -> bytes:
    try:
        return b64decode(text.replace(".", "+") + "=" * (-len(text) % 4), validate=True)
    except Error:
        raise HashRefused("The hash is not in base64") from None


def _rotated(first: tuple[int, int, int], step: int, count: int, last: Sequence[int]) -> Sequence[int]:
    """Groups of three bytes, each a rotation of the group before, and what is left over."""
    order: list[int] = []
    group = first
    for _ in range(count):
        order += group
        a, b, c = group
        group = (b + 1, c + 1, a + 1) if step > 0 else (c + 1, a + 1, b + 1)
    return [*order, *last]


# SHA-crypt and phpass write their digests in this order, each group from its last byte on.
_ORDER_OF_SHA256: Final = _rotated((0, 10, 20), -1, 10, (31, 30))
_ORDER_OF_SHA512: Final = _rotated((0, 21, 42), 1, 21, (63,))
_ORDER_OF_PHPASS: Final = (2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15)


def _of_crypt(text: str, order: Sequence[int]) -> bytes:
    raw = bytearray(len(order))
    for start in range(0, len(order), 3):
        wanted = order[start : start + 3]
        digits = text[start // 3 * 4 : start // 3 * 4 + len(wanted) + 1]
        bits = sum(_CRYPTS.index(digit) << 6 * at for at, digit in enumerate(digits))
        if bits >> 8 * len(wanted):
            raise HashRefused("The hash is malformed: its last character says too much")
        for at, place in enumerate(reversed(wanted)):
            raw[place] = bits >> 8 * at & 0xFF
    return bytes(raw)
