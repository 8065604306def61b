"""authentik: the people of the blueprint that `ak export_blueprint` writes. It holds neither passwords nor second factors."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.platform.imports.records import (
    LONGEST_HASH,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    hash_of,
    profile_of,
    required_id,
)

USER: Final = "authentik_core.user"
GROUP: Final = "authentik_core.group"
_SERVICE_ACCOUNTS: Final = frozenset({"service_account", "internal_service_account"})
_OF_AUTHENTIK: Final = "goauthentik.io/"
_NO_PASSWORD: Final = "password: the export of authentik has none; a new one has to be chosen"  # noqa: S105 - a note
_NO_HASH: Final = "password: is no hash; a new one has to be chosen"
_NO_SECRET: Final = "second factor: the export of authentik does not have its secret; it stays behind"  # noqa: S105 - a note
# The beginnings of Django's hashes. What has another one may be the password itself, of which nothing is told.
_HASHED: Final = re.compile(r"(pbkdf2_sha1|pbkdf2_sha256|bcrypt_sha256|bcrypt|argon2|scrypt)\$")


def model_of(entry: Json) -> str:
    model = entry.get("model") if isinstance(entry, Mapping) else None
    return model if isinstance(model, str) else ""


def group(entry: Json) -> tuple[str, str] | None:
    """The name of a group, by its key."""
    record = SourceRecord(entry if isinstance(entry, Mapping) else {}, Notes())
    key, name = _key(record), record.record("attrs").text("name")
    return (key, name) if key and name else None


def owner_of_device(entry: Json) -> str:
    """The key of the person whose authenticator the entry is. Empty for entries of other models."""
    if not model_of(entry).endswith("device"):
        return ""
    record = SourceRecord(entry if isinstance(entry, Mapping) else {}, Notes())
    return _text(record.record("attrs").content.get("user"))


def person(entry: Json, place: str, team: Callable[[str], str], has_device: Callable[[str], bool]) -> ImportedPerson:
    """`team` gives the name of a group, and an empty one for a group that the file does not have. Raises `LeftOut`."""
    if not isinstance(entry, Mapping):
        raise LeftOut("the entry is no object")
    notes = Notes()
    record = SourceRecord(entry, notes)
    user, key = record.record("attrs"), _key(record)
    name = required_id(SourceRecord({"pk": key or user.text("username") or record.record("identifiers").text("username")}, notes), "pk")
    if record.text("state") == "absent":
        raise LeftOut("the entry says that there is no such person")
    if user.text("type") in _SERVICE_ACCOUNTS:
        raise LeftOut("a service account, and not a person")
    if has_device(key):
        notes.add(_NO_SECRET)
    attributes = user.record("attributes")
    settings = attributes.record("settings")
    claims = {"name": user.content.get("name"), "locale": settings.content.get("locale")}
    return ImportedPerson(
        place=place,
        id=name,
        email=user.text("email"),
        # The export leaves out what is false.
        is_disabled=user.content.get("is_active") is not True,
        profile=profile_of(claims, notes),
        username=user.text("username"),
        password=_password(user, notes),
        teams=_teams(user, team),
        fields={one: value for one, value in attributes.content.items() if one != "settings" and not one.startswith(_OF_AUTHENTIK)},
        notes=notes.all,
    )


def _key(record: SourceRecord) -> str:
    return _text(record.record("identifiers").content.get("pk"))


def _text(key: Json) -> str:
    return str(key) if isinstance(key, int | str) and not isinstance(key, bool) else ""


def _teams(user: SourceRecord, team: Callable[[str], str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in user.items("groups"):
        name = team(_text(one))
        if name:
            found[name] = None
        else:
            user.notes.add("groups: one of them is no part of the export")
    return tuple(found)


def _password(user: SourceRecord, notes: Notes) -> ForeignHash | None:
    text = user.text("password_hash", LONGEST_HASH) or user.text("password", LONGEST_HASH)
    if not text:
        notes.add(_NO_PASSWORD)
        return None
    if _HASHED.match(text) is None:
        notes.add(_NO_HASH)
        return None
    return hash_of(foreign_hash, notes, text)
