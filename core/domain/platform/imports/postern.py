"""The form in which one Postern, or a script of anybody's, hands people to another: a line of JSON for each person, behind a first line
that says what the file is. `docs/guides/from-a-table.md` describes it.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identity.foreign_hashes.sources import HashForm
from core.domain.platform.imports.records import (
    LONGEST_HASH,
    ImportedIdentity,
    ImportedPasskey,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    bytes_of,
    password_of,
    profile_of,
    required_id,
    shown,
    totp_of,
)
from core.frozen import Frozen

VERSION: Final = 1
_KNOWN: Final = frozenset(
    (
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
        "passkeys",
        "identities",
        "roles",
        "teams",
        "service_roles",
        "fields",
    )
)
_PROFILE: Final = ("name", "given_name", "family_name", "zoneinfo", "locale")


class PeopleHeader(Frozen):
    """The first line of the file."""

    source: str
    """Where the people come from, such as the address of the other installation. Ids count within it."""
    relying_party: str
    """What the passkeys belong to. Empty if there are none."""


def beginning(content: Json) -> PeopleHeader:
    """Raises `BadRequest`."""
    record = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
    if record.content.get("postern_people") != VERSION or isinstance(record.content.get("postern_people"), bool):
        raise BadRequest(f'The first line must say what the file is, as in {{"postern_people": {VERSION}, "source": "https://…"}}')
    if not record.text("source", 200):
        raise BadRequest("source: is missing in the first line")
    if not record.text("source", 200).isprintable():
        raise BadRequest("source: has characters that nobody sees")
    return PeopleHeader(record.text("source", 200), record.text("relying_party", 253))


def person(content: Json, place: str, form: HashForm | None = None) -> ImportedPerson:
    """`form` is that of hashes that do not name theirs. Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the line is no object")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "id")
    for key in list(content)[:100]:
        if key not in _KNOWN:
            notes.add(f"{shown(key, 40)}: is not a part of this form")
    hashed, secret = user.text("password_hash", LONGEST_HASH), user.text("totp_secret")
    roles = user.record("service_roles")
    return ImportedPerson(
        place=place,
        id=name,
        email=user.text("email"),
        email_verified=user.flag("email_verified"),
        # A value that nobody understands keeps the person out.
        is_disabled=content.get("disabled") not in {None, False} if isinstance(content.get("disabled"), bool | None) else True,
        profile=profile_of({claim: content.get(claim) for claim in _PROFILE}, notes),
        username=user.text("username"),
        password=password_of(form, hashed, user.text("password_salt", LONGEST_HASH), notes),
        totp=totp_of(secret, notes) if secret else None,
        passkeys=tuple(made for one in user.records("passkeys") if (made := _passkey(one, name)) is not None),
        identities=tuple(
            ImportedIdentity(issuer, subject, one.text("email"), one.text("client_id"))
            for one in user.records("identities")
            if (issuer := one.text("issuer")) and (subject := one.text("subject"))
        ),
        roles=user.texts("roles"),
        teams=user.texts("teams"),
        service_roles=tuple((service, role) for service in list(roles.content)[:100] for role in roles.texts(service)),
        fields=user.record("fields").content,
        notes=notes.all,
    )


def _passkey(one: SourceRecord, name: str) -> ImportedPasskey | None:
    credential, key = bytes_of(one.text("credential_id", 4096)), bytes_of(one.text("public_key", 4096))
    handle, count, eligible = one.text("user_handle"), one.content.get("sign_count", 0), one.content.get("backup_eligible")
    user_handle = bytes_of(handle) if handle else _own_handle(name)
    whole = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**32
    if credential is None or key is None or user_handle is None or not whole or not isinstance(eligible, bool | None):
        one.notes.add("passkey: the credential is malformed")
        return None
    try:
        model = UUID(one.text("aaguid"))
    except ValueError:
        model = UUID(int=0)
    return ImportedPasskey(
        credential_id=credential,
        public_key=key,
        sign_count=count if isinstance(count, int) else 0,
        name=one.text("name"),
        aaguid=model,
        transports=one.texts("transports"),
        user_handle=user_handle,
        backup_eligible=eligible,
        backed_up=bool(eligible) and one.flag("backed_up"),
        is_second_factor=one.flag("second_factor"),
    )


def _own_handle(name: str) -> bytes | None:
    """Authenticators know a person of a Postern by the bytes of the id."""
    try:
        return UUID(name).bytes
    except ValueError:
        return None
