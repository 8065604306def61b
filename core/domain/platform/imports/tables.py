"""Reads users from CSV files, and recognizes files that are something else."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identity.foreign_hashes.sources import HashForm
from core.domain.platform.imports.records import (
    LONGEST_HASH,
    LONGEST_ID,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    password_of,
    profile_of,
    totp_of,
)
from core.frozen import Frozen

FIELD: Final = "field."
"""What goes in front of the key of a field of the organization, or of the installation."""
MEANINGS: Final = (
    "id",
    "email",
    "email_verified",
    "disabled",
    "name",
    "given_name",
    "family_name",
    "username",
    "locale",
    "zoneinfo",
    "password_hash",
    "password_salt",
    "totp_secret",
    "roles",
    "teams",
)
# Of so many unread columns a report speaks.
_MOST_UNREAD: Final = 20
_PROFILE: Final = ("name", "given_name", "family_name", "zoneinfo", "locale")
_YES: Final = frozenset({"true", "t", "yes", "y", "1"})
_NO: Final = frozenset({"false", "f", "no", "n", "0", ""})
_BETWEEN: Final = ";"


class TableMap(Frozen):
    """The columns of a CSV file by their meaning."""

    columns: Mapping[str, str]
    unread: tuple[str, ...] = ()
    """Columns that mean nothing here."""

    def cell(self, cells: Mapping[str, str], meaning: str) -> str:
        column = self.columns.get(meaning)
        return "" if column is None else cells[column].strip()


def table_map(columns: Sequence[str], stated: Mapping[str, str]) -> TableMap:
    """`stated` are the meanings of columns. A column that nobody states means what it is called. Raises `BadRequest`."""
    for column, meaning in stated.items():
        if column not in columns:
            raise BadRequest(f"--map {column}={meaning}: the table has no such column; it has {', '.join(columns)}")
        if meaning not in MEANINGS and not meaning.startswith(FIELD):
            raise BadRequest(f"--map {column}={meaning}: must be one of {', '.join(MEANINGS)}, or {FIELD} and the key of a field")
    meanings = {column: stated.get(column, column) for column in columns}
    known = {meaning: column for column, meaning in meanings.items() if meaning in MEANINGS or meaning.startswith(FIELD)}
    twice = sorted(one for one in known if sum(meaning == one for meaning in meanings.values()) > 1)
    if twice:
        raise BadRequest(f"--map: several columns are {', '.join(twice)}")
    if "email" not in known:
        raise BadRequest(f"No column is the address: say which, as in --map {columns[0]}=email")
    return TableMap(known, tuple(column for column in columns if column not in known.values())[:_MOST_UNREAD])


def person(cells: Mapping[str, str], place: str, columns: TableMap, form: HashForm | None = None) -> ImportedPerson:
    """A table without ids knows people by their addresses. `form` is that of hashes that do not name theirs. Raises `LeftOut`."""
    notes = Notes()
    record = SourceRecord({meaning: columns.cell(cells, meaning) for meaning in columns.columns}, notes)
    email = record.text("email")
    name = record.text("id", LONGEST_ID) or email.casefold()[:LONGEST_ID]
    if not name:
        raise LeftOut("email: is missing")
    hashed, secret = record.text("password_hash", LONGEST_HASH), record.text("totp_secret")
    for column in columns.unread:
        if cells[column].strip():
            notes.add(f"column {column}: is not read; --map says what it means")
    claims: dict[str, Json] = {key: record.content.get(key) or None for key in _PROFILE}
    return ImportedPerson(
        place=place,
        id=name,
        email=email,
        email_verified=_yes(record, "email_verified"),
        is_disabled=_is_disabled(record),
        profile=profile_of(claims, notes),
        username=record.text("username"),
        password=password_of(form, hashed, record.text("password_salt", LONGEST_HASH), notes),
        totp=totp_of(secret, notes) if secret else None,
        roles=_several(record, "roles"),
        teams=_several(record, "teams"),
        fields={key.removeprefix(FIELD): value for key, value in record.content.items() if key.startswith(FIELD) and value},
        notes=notes.all,
    )


def _yes(record: SourceRecord, key: str) -> bool:
    word = record.text(key).casefold()
    if word not in _YES | _NO:
        record.notes.add(f"{key}: is neither yes nor no")
    return word in _YES


def _is_disabled(record: SourceRecord) -> bool:
    """A word that nobody knows keeps the person out."""
    word = record.text("disabled").casefold()
    if word not in _YES | _NO:
        record.notes.add("disabled: is neither yes nor no, and counts as yes")
    return word not in _NO


def _several(record: SourceRecord, key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for part in record.text(key).split(_BETWEEN)[:100] if (one := part.strip())))


BEGINNING: Final = 1 << 16
"""So many bytes are looked at."""
# The first that fits counts.
_BINARY: Final[Sequence[tuple[bytes, str]]] = (
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet: unpack it, or save it as CSV"),
    (b"\x1f\x8b", "compressed with gzip: unpack it"),
    (b"\xff\xfe", "UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16: save it as UTF-8"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PGDMP", "a dump of PostgreSQL"),
)
_TEXTS: Final[Sequence[tuple[str, str]]] = (
    (r'\{\s*"postern_people"', "a file of people in Postern's own form"),
    (r"\s*<(\?xml|!doctype|html)", "a web page or XML"),
    (r"[^\n]*\bcognito:username\b", "a table of Amazon Cognito's users"),
    (r'\s*\{\s*"users"\s*:\s*\[\s*\{\s*"localId"\s*:', "an export of Firebase's users"),
    (r'\s*\{\s*"(orgs|dataOrgs|data_orgs|timeout)"\s*:(?s:.*)"(orgId|humanUsers)"\s*:', "an export of Zitadel"),
    (r'\s*\{(?s:.*)"state"\s*:\s*"USER_STATE_', "a list of Zitadel's users"),
    (r"(?m)^\s*(- )?model: authentik_", "a blueprint of authentik"),
    (r'\s*\{(?s:.*)"(realm|keycloakVersion)"\s*:', "a realm export of Keycloak"),
    (r'\s*\[\s*\{(?s:.*)"realm"\s*:', "an export of several realms of Keycloak"),
    (r'\s*\[\s*\{(?s:.*)"(user_id|custom_password_hash|email_verified)"\s*:', "a list of users for Auth0's bulk import"),
    (r'\s*\{[^\n]*"passwordHash"\s*:[^\n]*\}\s*(\n|$)', "Auth0's file of password hashes"),
    (r'\s*\{[^\n]*"(user_id|email_verified)"\s*:[^\n]*\}\s*(\n|$)', "an export of Auth0's users, one in each line"),
    (r'\s*[\[{](?s:.*)"Username"\s*:(?s:.*)"(UserStatus|UserCreateDate|Attributes)"\s*:', "a list of Amazon Cognito's users"),
    (r'\s*[\[{](?s:.*)"Attributes"\s*:(?s:.*)"Username"\s*:', "a list of Amazon Cognito's users"),
    (r"(?m)^(tenant|clients|databases|connections|rulesConfigs|clientGrants|resourceServers|emailTemplates):", "a0deploy's tenant.yaml"),
    (r"\s*[\[{]", "JSON"),
    (r"(---\s|[\w-]+:( |\n))", "YAML"),
    (r"[^\n,;\t]+[,;\t][^\n]*\n[^\n]*[,;\t]", "a table"),
    (r"\s*(insert|create|--|/\*)\s", "SQL"),
    (r"\s*\S", "text"),
)


def named_kind(beginning: bytes) -> str:
    """Recognizes a file by its beginning, for a user who has chosen the wrong one. Returns a phrase, such as "a realm export of Keycloak";
    empty for an empty file.
    """
    for mark, phrase in _BINARY:
        if beginning.startswith(mark):
            return phrase
    text = beginning[:BEGINNING].decode("utf-8-sig", "replace")
    return next((phrase for pattern, phrase in _TEXTS if re.match(pattern, text, re.IGNORECASE) or _anywhere(pattern, text)), "")


def _anywhere(pattern: str, text: str) -> bool:
    return pattern.startswith("(?m)") and re.search(pattern, text) is not None
