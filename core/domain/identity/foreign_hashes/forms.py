"""Forms of hashes that do not name themselves: whoever imports them says which library made them, and with which parameters."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashRefused
from core.domain.identity.foreign_hashes.sources import ScryptSettings, firebase_hash
from core.domain.identity.foreign_hashes.texts import foreign_hash, from_hex, pbkdf2, scrypt
from core.frozen import Frozen

Numbers = Mapping[str, int]


class HashForm(Frozen, kw_only=True):
    """`read` takes a salt, a digest and the parameters."""

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
