"""Reads users of another system from the records of an export."""

import re
from base64 import b32decode, b32encode, b64decode, urlsafe_b64decode
from binascii import Error
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashRefused
from core.domain.identity.foreign_hashes.sources import HashForm
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.identity.profiles import NOTHING_STATED, StatedProfile, stated_profile
from core.domain.secrets import Secret
from core.frozen import Frozen

NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


class LeftOut(Exception):
    """A record that names nobody who could be taken. The text says why, in one line, and holds nothing secret."""


class ImportedPasskey(Frozen, kw_only=True):
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    aaguid: UUID
    transports: tuple[str, ...] = ()
    user_handle: bytes
    """The name that the other system gave the person at the authenticator."""
    backup_eligible: bool | None = None
    """None where the other system does not say. Then the passkey's first use here says it."""
    backed_up: bool = False
    is_second_factor: bool = False
    """The passkey was asked for after the password, and did not sign in alone."""


class ImportedIdentity(Frozen):
    """An account at a provider. `client_id` is the other system's registration there, if it says so: many providers name a person
    differently to each client.
    """

    issuer: str
    subject: str
    email: str = ""
    client_id: str = ""


class ImportedPerson(Frozen, kw_only=True):
    """A user as another system had them. Nothing here has been checked against this installation yet."""

    place: str
    """Where in the file the person stands, in words."""
    id: str
    """The other system's own name for the person, which never changes there."""
    email: str
    email_verified: bool = False
    is_disabled: bool = False
    profile: StatedProfile = NOTHING_STATED
    username: str = ""
    password: ForeignHash | None = None
    totp: Secret | None = None
    """In base32, for codes of six digits that change every thirty seconds, by SHA-1."""
    passkeys: tuple[ImportedPasskey, ...] = ()
    identities: tuple[ImportedIdentity, ...] = ()
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    service_roles: tuple[tuple[str, str], ...] = ()
    """Pairs: the name of an application, and of one of its roles."""
    fields: Mapping[str, Json] = NOTHING
    notes: tuple[str, ...] = ()
    """What stays behind of the person, line by line."""


class UnreadableRecord(Frozen):
    """A record of the file that is nobody."""

    place: str
    reason: str
    id: str = ""
    email: str = ""


Found = ImportedPerson | UnreadableRecord


LONGEST_ID: Final = 255
LONGEST_HASH: Final = 10_000
"""More than any hash that is read, so that the reason why one is not is told of the hash."""
MOST_ITEMS: Final = 100
"""The most of anything that one person has several of."""
MOST_NOTES: Final = 20
_LONGEST_TEXT: Final = 1000
_LONGEST_NOTE: Final = 200
_LONGEST_KEY: Final = 4096
_LONGEST_TOTP: Final = 128
_SHORTEST_TOTP_BYTES: Final = 10
_PROFILE: Final = ("name", "given_name", "family_name", "zoneinfo")


class Notes:
    """The notes about one person, each once, and not more than somebody reads."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def add(self, note: str) -> None:
        if len(self._notes) < MOST_NOTES:
            self._notes[shown(note, _LONGEST_NOTE)] = None

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(self._notes)


class SourceRecord:
    """One record of the export, whatever types its values have. Every value is what its reader asks for, or left out with a note, and the
    rest is imported.
    """

    def __init__(self, content: Mapping[str, Json], notes: Notes) -> None:
        self.content = content
        self.notes = notes

    def text(self, key: str, longest: int = _LONGEST_TEXT) -> str:
        """Empty if there is none."""
        value = self.content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.notes.add(f"{key}: is no text")
            return ""
        if len(value) > longest:
            self.notes.add(f"{key}: has more than {longest} characters")
            return ""
        return value

    def flag(self, key: str) -> bool:
        """False if there is none."""
        value = self.content.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.notes.add(f"{key}: is neither true nor false")
        return False

    def items(self, key: str) -> Sequence[Json]:
        value = self.content.get(key)
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.notes.add(f"{key}: is no list")
            return ()
        if len(value) > MOST_ITEMS:
            self.notes.add(f"{key}: has more than {MOST_ITEMS} entries; the others stay behind")
        return value[:MOST_ITEMS]

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.items(key)
        texts = tuple(one for one in found if isinstance(one, str) and 0 < len(one) <= _LONGEST_TEXT)
        if len(texts) < len(found):
            self.notes.add(f"{key}: an entry is no text, or too long")
        return texts

    def record(self, key: str) -> "SourceRecord":
        value = self.content.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.notes.add(f"{key}: is no object")
        return SourceRecord(value if isinstance(value, Mapping) else {}, self.notes)

    def records(self, key: str) -> Sequence["SourceRecord"]:
        found = self.items(key)
        records = [SourceRecord(one, self.notes) for one in found if isinstance(one, Mapping)]
        if len(records) < len(found):
            self.notes.add(f"{key}: an entry is no object")
        return records


def required_id(record: SourceRecord, key: str) -> str:
    """Raises `LeftOut`."""
    value = record.content.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise LeftOut(f"{key}: is missing, or no text")
    if len(value) > LONGEST_ID:
        raise LeftOut(f"{key}: has more than {LONGEST_ID} characters")
    return value


def profile_of(claims: Mapping[str, Json], notes: Notes) -> StatedProfile:
    """The parts of a profile, by the names of the standard claims, as far as a profile can hold them."""
    told = stated_profile(claims)
    for name in _PROFILE:
        if claims.get(name) is not None and claims[name] != "" and getattr(told, name) is None:
            notes.add(f"{name}: is nothing that a profile can hold")
    return told


def hash_of(read: Any, notes: Notes, *given: Any) -> ForeignHash | None:
    """What `read` makes of a password. The refusal becomes a note."""
    try:
        made: ForeignHash = read(*given)
    except HashRefused as refusal:
        notes.add(f"password: {refusal}; a new one has to be chosen")
        return None
    return made


def password_of(form: HashForm | None, text: str, salt: str, notes: Notes) -> ForeignHash | None:
    """The password of a record that has its hash as a text, and perhaps its salt as another."""
    if not text:
        return None
    return hash_of(foreign_hash, notes, text) if form is None else hash_of(form.hash_of, notes, text, salt)


def totp_of(text: str, notes: Notes) -> Secret | None:
    """The secret of an authenticator app in base32, as apps show it."""
    secret = text.replace(" ", "").replace("-", "").rstrip("=").upper()
    try:
        raw = b32decode(secret + "=" * (-len(secret) % 8)) if len(secret) <= _LONGEST_TOTP else b""
    except (Error, ValueError):
        raw = b""
    if len(raw) < _SHORTEST_TOTP_BYTES:
        notes.add(f"second factor: the secret is no base32 of {_SHORTEST_TOTP_BYTES} to {_LONGEST_TOTP * 5 // 8} bytes")
        return None
    return Secret(secret)


def totp_of_bytes(raw: bytes, notes: Notes) -> Secret | None:
    return totp_of(b32encode(raw).decode(), notes)


def bytes_of(text: str) -> bytes | None:
    """Reads base64 in either alphabet, padded or not. None for anything else."""
    if not text or len(text) > _LONGEST_KEY:
        return None
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    try:
        if "-" in bare or "_" in bare:
            return urlsafe_b64decode(padded) if re.fullmatch(r"[A-Za-z0-9_-]+", bare) else None
        return b64decode(padded, validate=True)
    except (Error, ValueError):
        return None


def shown(text: str, longest: int = _LONGEST_TEXT) -> str:
    """A text of the file on one line, for reports. Nothing of it moves what stands beside it, and any file can hold it."""
    line = text[:longest]
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(text) <= longest else f"{line}…"
