"""Firebase Authentication: what `firebase auth:export` writes, as JSON and as a table without names."""

import json
from collections.abc import Mapping
from typing import Final

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.sources import HashForm
from core.domain.platform.imports.records import (
    LONGEST_HASH,
    ImportedIdentity,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    password_of,
    profile_of,
    required_id,
)

# The issuers of the providers that name a person alike to every project.
_ISSUERS: Final[Mapping[str, str]] = {"google.com": "https://accounts.google.com", "github.com": "https://github.com/login/oauth"}
_PROVIDERS: Final = ("google.com", "facebook.com", "twitter.com", "github.com")
_OF_PROVIDER: Final = ("rawId", "email", "displayName", "photoUrl")
COLUMNS: Final = (
    *("localId", "email", "emailVerified", "passwordHash", "salt", "displayName", "photoUrl"),
    *(f"{provider} {part}" for provider in _PROVIDERS for part in _OF_PROVIDER),
    *("createdAt", "lastLoginAt", "phoneNumber", "disabled", "customAttributes"),
)
LEAST_COLUMNS: Final = 26
"""Versions before 2022 write neither `disabled` nor what stands behind it."""
_NO_FORM: Final = (
    "password: its hash needs the parameters of the project: name them with --hash firebase --hash-config; a new one has to be chosen"
)
_LONGEST_CLAIMS: Final = 4096


def is_user(content: Json) -> bool:
    return isinstance(content, Mapping) and "localId" in content


def person(content: Json, place: str, form: HashForm | None = None) -> ImportedPerson:
    """`form` has the parameters of the project's hashes. Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "localId")
    claims = _claims(user)
    if user.text("phoneNumber"):
        notes.add("phoneNumber: there is no sign-in by telephone; it stays behind")
    if content.get("mfaInfo"):
        notes.add("second factor: there is no sign-in by telephone; it stays behind")
    role = claims.pop("role", None)
    roles = SourceRecord({"roles": claims.pop("roles", None)}, notes).texts("roles")
    return ImportedPerson(
        place=place,
        id=name,
        email=user.text("email"),
        email_verified=user.flag("emailVerified"),
        is_disabled=content.get("disabled") not in {None, False},
        profile=profile_of({"name": content.get("displayName")}, notes),
        password=_password(user, form, notes),
        identities=_identities(user),
        roles=tuple(dict.fromkeys((*([role] if isinstance(role, str) and role else []), *roles))),
        fields=claims,
        notes=notes.all,
    )


def person_of_row(cells: Mapping[str, str], place: str, form: HashForm | None = None) -> ImportedPerson:
    """Raises `LeftOut`."""
    content: dict[str, Json] = {key: value for key, value in cells.items() if value and " " not in key}
    for flag in ("emailVerified", "disabled"):
        if flag in content:
            # A word that nobody knows proves no address, and keeps the person out.
            content[flag] = {"true": True, "false": False}.get(cells[flag], flag == "disabled")
    content["providerUserInfo"] = [
        {"providerId": provider, **{part: cells.get(f"{provider} {part}") for part in _OF_PROVIDER}}
        for provider in _PROVIDERS
        if cells.get(f"{provider} rawId")
    ]
    return person(content, place, form)


def _password(user: SourceRecord, form: HashForm | None, notes: Notes) -> ForeignHash | None:
    text, salt = user.text("passwordHash", LONGEST_HASH), user.text("salt", LONGEST_HASH)
    if not text:
        return None
    if form is None:
        notes.add(_NO_FORM)
        return None
    return password_of(form, text, salt, notes)


def _claims(user: SourceRecord) -> dict[str, Json]:
    """The claims that an administrator has given the person. They stand there as a text of JSON."""
    text = user.text("customAttributes", _LONGEST_CLAIMS)
    try:
        content = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        user.notes.add("customAttributes: is no object")
        return {}
    return content


def _identities(user: SourceRecord) -> tuple[ImportedIdentity, ...]:
    found: list[ImportedIdentity] = []
    for one in user.records("providerUserInfo"):
        provider, subject = one.text("providerId"), one.text("rawId")
        if provider in {"password", "phone"}:
            continue
        issuer = _ISSUERS.get(provider)
        if issuer is None or not subject:
            user.notes.add(f"identity at {provider or 'a provider'}: its issuer is not known; it stays behind")
            continue
        found.append(ImportedIdentity(issuer, subject, one.text("email")))
    return tuple(found)
