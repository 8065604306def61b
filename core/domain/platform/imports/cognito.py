"""Amazon Cognito: the users that `aws cognito-idp list-users` lists, and tables with the columns of its user import."""

import json
from collections.abc import Mapping
from typing import Final

from core.domain.formats import Json
from core.domain.platform.imports.records import ImportedIdentity, ImportedPerson, LeftOut, Notes, SourceRecord, profile_of, required_id

USERS: Final = "Users"
# Either stands in a page that another one follows.
NEXT_PAGE: Final = frozenset({"PaginationToken", "NextToken"})
USERNAME_COLUMN: Final = "cognito:username"
_MFA_COLUMN: Final = "cognito:mfa_enabled"
_PROFILE: Final = ("name", "given_name", "family_name", "zoneinfo", "locale")
_FIELD: Final = "custom:"
_FROM_PROVIDER: Final = "EXTERNAL_PROVIDER"
_SHUT: Final = frozenset({"ARCHIVED", "COMPROMISED"})
_GOOGLE: Final = "https://accounts.google.com"
_NO_PASSWORD: Final = "password: Cognito gives out no hashes; a new one has to be chosen"  # noqa: S105 - a note
_NO_SECRET: Final = "second factor: Cognito does not export it; it stays behind"  # noqa: S105 - a note
_LONGEST_IDENTITIES: Final = 4096


def is_user(content: Json) -> bool:
    return isinstance(content, Mapping) and "Username" in content


def is_page(content: Json) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get(USERS), list)


def is_last(page: Mapping[str, Json]) -> bool:
    return not any(page.get(key) for key in NEXT_PAGE)


def person(content: Json, place: str) -> ImportedPerson:
    """Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "Username")
    told = SourceRecord({one.text("Name"): one.content.get("Value") for one in user.records("Attributes")}, notes)
    is_of_provider = user.text("UserStatus") == _FROM_PROVIDER
    if not is_of_provider:
        notes.add(_NO_PASSWORD)
    if "Enabled" not in content:
        notes.add("Enabled: is missing, and counts as no")
    if user.items("UserMFASettingList") or user.items("MFAOptions"):
        notes.add(_NO_SECRET)
    if told.text("phone_number"):
        notes.add("phone_number: there is no sign-in by telephone; it stays behind")
    return ImportedPerson(
        place=place,
        id=name,
        email=told.text("email"),
        email_verified=told.text("email_verified").casefold() == "true",
        is_disabled=content.get("Enabled") is not True or user.text("UserStatus") in _SHUT,
        profile=profile_of({claim: told.content.get(claim) for claim in _PROFILE}, notes),
        username=told.text("preferred_username") or ("" if is_of_provider or name == told.content.get("sub") or "@" in name else name),
        identities=_identities(told),
        fields={key.removeprefix(_FIELD): value for key, value in told.content.items() if key.startswith(_FIELD) and value},
        notes=notes.all,
    )


def person_of_row(cells: Mapping[str, str], place: str) -> ImportedPerson:
    """A table of Cognito does not say who is disabled, unless somebody has added the column `Enabled`. Raises `LeftOut`."""
    enabled, mfa = (cells.get(column, usual).strip().casefold() for column, usual in (("Enabled", "true"), (_MFA_COLUMN, "")))
    content: Mapping[str, Json] = {
        "Username": cells[USERNAME_COLUMN].strip() or cells.get("email", "").strip().casefold(),
        "Attributes": [{"Name": key, "Value": value.strip()} for key, value in cells.items() if value.strip() and key not in _OWN],
        "Enabled": enabled == "true",
        "UserStatus": cells.get("UserStatus", "").strip(),
        "UserMFASettingList": [mfa] if mfa == "true" else [],
    }
    return person(content, place)


_OWN: Final = frozenset({USERNAME_COLUMN, _MFA_COLUMN, "Enabled", "UserStatus"})


def _identities(told: SourceRecord) -> tuple[ImportedIdentity, ...]:
    """The accounts at providers. They stand there as a text of JSON."""
    text = told.text("identities", _LONGEST_IDENTITIES)
    try:
        content = json.loads(text) if text else []
    except (ValueError, RecursionError):
        content = text
    found: list[ImportedIdentity] = []
    for one in SourceRecord({"identities": content}, told.notes).records("identities"):
        subject = one.text("userId")
        # Apple and Facebook name a person differently to each client, and Cognito does not tell the issuers of others.
        if one.text("providerType") != "Google" or not subject:
            told.notes.add(f"identity at {one.text('providerName') or 'a provider'}: its issuer is not known; it stays behind")
            continue
        found.append(ImportedIdentity(_GOOGLE, subject, told.text("email")))
    return tuple(found)
