"""Parses password hashes as other systems export them, where a hash is more than one text."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashKind, HashRefused, from_base64
from core.domain.identity.foreign_hashes.texts import argon2, foreign_hash, from_hex, pbkdf2, scrypt
from core.frozen import Frozen

_MALFORMED: Final = "The credential is malformed"
_KEYCLOAKS: Final[Mapping[str, str]] = {"pbkdf2": "sha1", "pbkdf2-sha256": "sha256", "pbkdf2-sha512": "sha512"}


class ScryptSettings(Frozen, kw_only=True):
    """What a Firebase project says of its hashes: `base64_signer_key`, `base64_salt_separator`, `rounds` and `mem_cost`."""

    signer_key: str
    salt_separator: str
    rounds: int
    memory_cost: int


def keycloak_hash(credential: Json, secret: Json) -> ForeignHash:
    """A password of a Keycloak realm: the objects that `credentialData` and `secretData` hold as JSON texts. Raises `HashRefused`."""
    told, kept = _object(credential), _object(secret)
    algorithm, value = _text(told, "algorithm"), _text(kept, "value")
    if value.startswith("$"):
        # Providers of others, for bcrypt for instance, keep a text that names its kind.
        return foreign_hash(value)
    salt, raw = from_base64(_text(kept, "salt")), from_base64(value)
    iterations = _number(told.get("hashIterations"))
    if algorithm in _KEYCLOAKS:
        return pbkdf2(_KEYCLOAKS[algorithm], iterations, salt, raw)
    if algorithm != "argon2":
        raise HashRefused("Of Keycloak's algorithms, pbkdf2, pbkdf2-sha256, pbkdf2-sha512 and argon2 are checked")
    more = _object(told.get("additionalParameters"))
    version = {"1.0": 16, "1.3": 19}.get(_first(more, "version"), 0)
    numbers = {"v": version, "m": _number(_first(more, "memory")), "t": iterations, "p": _number(_first(more, "parallelism"))}
    return argon2(_first(more, "type"), numbers, salt, raw)


def firebase_hash(digest: str, salt: str, settings: ScryptSettings) -> ForeignHash:
    """A password of Firebase Authentication: `passwordHash` and `salt` of one person, and what the project says. The signer key is not
    kept: what scrypt's result adds to it is the digest less the key. Raises `HashRefused`.
    """
    key, raw = from_base64(_standard(settings.signer_key)), from_base64(_standard(digest))
    if len(key) != len(raw):
        raise HashRefused("The hash was not made with this signer key: their lengths differ")
    salted = from_base64(_standard(salt)) + from_base64(_standard(settings.salt_separator))
    if not _standard(salt):
        raise HashRefused("The hash has no salt")
    stream = bytes(one ^ other for one, other in zip(raw, key, strict=True))
    return ForeignHash.of(HashKind.SCRYPT_STREAM, {"ln": settings.memory_cost, "r": settings.rounds, "p": 1}, salted, stream)


def auth0_hash(given: Json) -> ForeignHash:
    """A password of Auth0: the text of `passwordHash`, or the object of `custom_password_hash`. Raises `HashRefused`."""
    if isinstance(given, str):
        return foreign_hash(given)
    told = _object(given)
    algorithm, kept = _text(told, "algorithm"), _object(told.get("hash"))
    value = _text(kept, "value")
    if algorithm in {"bcrypt", "argon2", "pbkdf2", "ldap"}:
        return foreign_hash(value)
    if algorithm != "scrypt":
        raise HashRefused("Of Auth0's algorithms, argon2, bcrypt, ldap, pbkdf2 and scrypt are checked")
    salted = _object(told.get("salt"))
    salt = _decoded(_text(salted, "value"), salted.get("encoding", "utf8"))
    cost, block, lanes = (_number(told.get(name, usual)) for name, usual in (("cost", 16384), ("blockSize", 8), ("parallelization", 1)))
    return scrypt(cost, block, lanes, salt, _decoded(value, kept.get("encoding", "utf8")))


def _decoded(text: str, encoding: Json) -> bytes:
    if encoding == "base64":
        return from_base64(text)
    if encoding == "hex":
        return from_hex(text)
    if encoding == "utf8":
        return text.encode("utf-8", "surrogatepass")
    raise HashRefused("Encodings are base64, hex and utf8")


def _object(given: Json) -> Mapping[str, Json]:
    if not isinstance(given, Mapping):
        raise HashRefused(_MALFORMED)
    return given


def _text(given: Mapping[str, Json], name: str) -> str:
    found = given.get(name)
    if not isinstance(found, str) or not found:
        raise HashRefused(f"The credential has no {name}")
    return found


def _first(given: Mapping[str, Json], name: str) -> str:
    """Keycloak writes each further parameter as a list of one text."""
    found = given.get(name)
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return found[0]
    raise HashRefused(f"The credential has no {name}")


def _number(given: Json) -> int:
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= 10:
        return int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise HashRefused(_MALFORMED)


def _standard(text: str) -> str:
    """Firebase's tools write both alphabets of base64."""
    return text.replace("-", "+").replace("_", "/")


Numbers = Mapping[str, int]


class HashForm(Frozen, kw_only=True):
    """A hash format that does not name itself: whoever imports such hashes states the library and its parameters. `read` takes a salt, a
    digest and the parameters.
    """

    name: str
    numbers: Numbers
    read: Callable[[str, str, Numbers], ForeignHash]

    def hash_of(self, text: str, salt: str) -> ForeignHash:
        """A text that names its own form is read as that. Raises `HashRefused`."""
        if text.startswith(_NAMES_ITSELF):
            return foreign_hash(text)
        if not salt:
            first, mark, second = text.partition(":") if ":" in text else text.partition(".")
            if not mark:
                raise HashRefused(f"The hash is not of the form {self.name}: it has no salt")
            # Node's own examples write the salt in front of a colon, and behind a full stop.
            salt, text = (second, first) if mark == "." else (first, second)
        return self.read(salt, text, self.numbers)


_NAMES_ITSELF: Final = ("$", "{", "!")


def _of_scrypt(salt: str, digest: str, numbers: Numbers) -> ForeignHash:
    return scrypt(numbers["n"], numbers["r"], numbers["p"], salt.encode(), from_hex(digest))


def _of_scrypt_bytes(salt: str, digest: str, numbers: Numbers) -> ForeignHash:
    return scrypt(numbers["n"], numbers["r"], numbers["p"], from_hex(salt), from_hex(digest))


def _of_pbkdf2(salt: str, digest: str, numbers: Numbers) -> ForeignHash:
    return pbkdf2(f"sha{numbers['sha']}", numbers["i"], salt.encode(), from_hex(digest))


def _of_pbkdf2_bytes(salt: str, digest: str, numbers: Numbers) -> ForeignHash:
    return pbkdf2(f"sha{numbers['sha']}", numbers["i"], from_hex(salt), from_hex(digest))


_SCRYPT: Final = {"n": 16384, "r": 8, "p": 1}
_FORMS: Final[Mapping[str, tuple[Callable[[str, str, Numbers], ForeignHash], Numbers]]] = {
    "better-auth": (_of_scrypt, {**_SCRYPT, "r": 16}),
    "node-scrypt": (_of_scrypt, _SCRYPT),
    "node-scrypt-bytes": (_of_scrypt_bytes, _SCRYPT),
    "passport-local-mongoose": (_of_pbkdf2, {"i": 25_000, "sha": 256}),
    "node-pbkdf2": (_of_pbkdf2, {"i": 100_000, "sha": 512}),
    "node-pbkdf2-bytes": (_of_pbkdf2_bytes, {"i": 100_000, "sha": 512}),
}
FIREBASE: Final = "firebase"
NAMES: Final = (*_FORMS, FIREBASE)
_PARAMETER: Final = re.compile(r"([a-z]{1,3})=([0-9]{1,10})")


def hash_form(asked: str) -> HashForm:
    """Reads `node-scrypt` or `node-scrypt:n=32768,r=8`. Parameters that are not named are those of the library. Raises `BadRequest`."""
    name, colon, rest = asked.partition(":")
    if name not in _FORMS:
        raise BadRequest(f"--hash {name}: must be one of {', '.join(NAMES)}")
    read, usual = _FORMS[name]
    given: dict[str, int] = {}
    for part in rest.split(",") if colon else ():
        found = _PARAMETER.fullmatch(part)
        if found is None or found[1] not in usual or found[1] in given:
            raise BadRequest(f"--hash {asked}: after the colon stand {', '.join(usual)}, each once and with a number")
        given[found[1]] = int(found[2])
    return HashForm(name=name, numbers={**usual, **given}, read=read)


def firebase_form(settings: ScryptSettings) -> HashForm:
    return HashForm(name=FIREBASE, numbers={}, read=lambda salt, digest, _numbers: firebase_hash(digest, salt, settings))


_SETTING: Final = re.compile(
    r'"?\b(base64_signer_key|signer_key|base64_salt_separator|salt_separator|rounds|mem_cost|memory_cost)"?\s*[:=]\s*"?([^\s",;}]+)'
)


def firebase_settings(text: str) -> ScryptSettings:
    """Reads the password hash parameters as Firebase's console shows them, or as JSON. Raises `BadRequest`."""
    found = {name.removeprefix("base64_").replace("memory_", "mem_"): value for name, value in _SETTING.findall(text)}
    missing = [name for name in ("signer_key", "salt_separator", "rounds", "mem_cost") if name not in found]
    if missing:
        raise BadRequest(f"--hash-config: lacks {', '.join(missing)}. Copy the password hash parameters from Firebase's console")
    if not all(found[name].isdecimal() and len(found[name]) < 4 for name in ("rounds", "mem_cost")):
        raise BadRequest("--hash-config: rounds and mem_cost must be numbers")
    return ScryptSettings(
        signer_key=found["signer_key"],
        salt_separator=found["salt_separator"],
        rounds=int(found["rounds"]),
        memory_cost=int(found["mem_cost"]),
    )
