"""Auth0's users: the bulk export, the file of password hashes that its support gives out, and the form of its bulk import."""

from collections.abc import Mapping
from typing import Final

from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.sources import auth0_hash
from core.domain.json import Json
from core.domain.platform.imports.people import ImportedIdentity, ImportedPerson, LeftOut
from core.domain.platform.imports.records import Notes, SourceRecord, hash_of, profile_of, required_id, totp_of
from core.domain.secrets import Secret

# The issuers of the social connections that name a person alike to every client.
_ISSUERS: Final[Mapping[str, str]] = {"google-oauth2": "https://accounts.google.com", "github": "https://github.com/login/oauth"}
_DATABASE: Final = "auth0"
_WITH_ROLES: Final = frozenset({"roles", "authorization"})
_CLAIMS: Final = ("name", "given_name", "family_name", "zoneinfo", "locale")


def hash_key(content: Json) -> str:
    """The `user_id` that a line of the file of hashes is about. Empty if it names nobody."""
    if not isinstance(content, Mapping):
        return ""
    record = SourceRecord(content, Notes())
    name = record.text("alt_id") or record.record("_id").text("$oid") or record.text("_id")
    return f"{_DATABASE}|{name}" if name else ""


def person(content: Json, place: str, hashed: Json = None) -> ImportedPerson:
    """`hashed` is the person's line in the file of hashes. Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    if "passwordHash" in content and "user_id" not in content:
        raise LeftOut("a line of the file of password hashes: name that file with --hashes")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "user_id") if content.get("user_id") is not None else _by_address(user)
    email = user.text("email")
    application = user.record("app_metadata")
    told = {key: value for key, value in application.content.items() if key not in _WITH_ROLES}
    metadata = {**told, **user.record("user_metadata").content}
    if content.get("multifactor") and not content.get("mfa_factors"):
        notes.add("second factor: Auth0 does not export it; it stays behind")
    if user.text("phone_number"):
        notes.add("phone_number: there is no sign-in by telephone; it stays behind")
    return ImportedPerson(
        place=place,
        id=name,
        email=email,
        email_verified=_is_verified(user),
        is_disabled=user.flag("blocked"),
        profile=profile_of({claim: _claim(content, claim, email) for claim in _CLAIMS}, notes),
        username=user.text("username"),
        password=_password(user, hashed, notes),
        totp=_totp(user, notes),
        identities=_identities(user, name, email, notes),
        roles=tuple(dict.fromkeys((*user.texts("roles"), *_roles_named(application)))),
        fields=metadata,
        notes=notes.all,
    )


def _roles_named(application: SourceRecord) -> tuple[str, ...]:
    """Rules and the authorization extension keep roles in the metadata that people cannot change themselves."""
    told = application.texts("roles") if isinstance(application.content.get("roles"), list) else ()
    extension = application.content.get("authorization")
    return (*told, *SourceRecord(extension, application.notes).texts("roles")) if isinstance(extension, Mapping) else told


def _by_address(user: SourceRecord) -> str:
    """Files for the bulk import need no id."""
    email = user.text("email")
    if not email:
        raise LeftOut("user_id: is missing, or no text")
    return f"email|{email.casefold()}"[:255]


def _claim(content: Mapping[str, Json], claim: str, email: str) -> Json:
    """Where nobody has given a name, Auth0 writes the address there."""
    value = content.get(claim)
    return None if claim == "name" and isinstance(value, str) and value.casefold() == email.casefold() else value


def _is_verified(user: SourceRecord) -> bool:
    # In tables that were made of an export, words stand in the place of true and false.
    return user.content.get("email_verified") == "true" or user.flag("email_verified")


def _password(user: SourceRecord, hashed: Json, notes: Notes) -> ForeignHash | None:
    for given in (
        hashed.get("passwordHash") if isinstance(hashed, Mapping) else None,
        user.content.get("passwordHash"),
        user.content.get("password_hash"),
        user.content.get("custom_password_hash"),
    ):
        if given is not None:
            return hash_of(auth0_hash, notes, given)
    return None


def _totp(user: SourceRecord, notes: Notes) -> Secret | None:
    secrets = [one.record("totp").text("secret") for one in user.records("mfa_factors") if one.content.get("totp") is not None]
    others = {kind for one in user.records("mfa_factors") for kind in ("phone", "email") if one.content.get(kind) is not None}
    for kind in sorted(others):
        notes.add(f"second factor by {kind}: there is none here; it stays behind")
    return totp_of(secrets[0], notes) if secrets else None


def _identities(user: SourceRecord, name: str, email: str, notes: Notes) -> tuple[ImportedIdentity, ...]:
    found: list[ImportedIdentity] = []
    for one in user.records("identities"):
        provider, connection = one.text("provider"), one.text("connection")
        subject = one.content.get("user_id")
        subject = str(subject) if isinstance(subject, int) and not isinstance(subject, bool) else subject
        if provider in {_DATABASE, ""}:
            continue
        issuer = _ISSUERS.get(provider)
        if issuer is None or not isinstance(subject, str) or not subject:
            notes.add(f"identity at {connection or provider}: its issuer is not known; it stays behind")
            continue
        told = one.record("profileData").text("email") or (email if name == f"{provider}|{subject}" else "")
        found.append(ImportedIdentity(issuer, subject, told))
    return tuple(found)
