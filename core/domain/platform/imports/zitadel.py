"""Zitadel: the people that `POST /admin/v1/export` writes, and what the export tells of them beside."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.platform.imports.records import (
    LONGEST_HASH,
    ImportedIdentity,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    bytes_of,
    hash_of,
    profile_of,
    required_id,
    totp_of,
)
from core.frozen import Frozen

PEOPLE: Final = "humanUsers"
WALKED: Final = frozenset({"orgs", "dataOrgs", "data_orgs"})
"""The lists and objects around the people. An export has the first one alone; the others stand around it in files for an import."""
_ACTIVE: Final = frozenset({"USER_STATE_ACTIVE", "USER_STATE_INITIAL"})
BESIDE: Final[Mapping[str, str]] = {"userLinks": "userId", "userMetadata": "id", "userGrants": "userId", "orgMembers": "userId"}
"""The lists that tell more of a person, and what names the person in each entry."""
_UNKNOWN_LANGUAGE: Final = "und"


class ZitadelProvider(Frozen):
    """A provider to which an organization sent people."""

    issuer: str
    client_id: str


class ZitadelNames(Frozen, kw_only=True):
    """What ids of the export stand for."""

    providers: Mapping[str, ZitadelProvider]
    projects: Mapping[str, str]


class EntryBeside(Frozen):
    """An entry of a list beside the people."""

    kind: str
    content: Mapping[str, Json]


def is_person(content: Json) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get("user"), Mapping)


def owner_of(kind: str, content: Json) -> str:
    """The id of the person that an entry of the list `kind` is about. Empty for all that is about nobody."""
    key = BESIDE.get(kind)
    owner = content.get(key) if key is not None and isinstance(content, Mapping) else None
    return owner if isinstance(owner, str) else ""


def provider(content: Json) -> tuple[str, ZitadelProvider] | None:
    """An entry of `oidcIdps`, by its id."""
    record = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
    name, settings = record.text("idpId"), record.record("idp")
    issuer = settings.text("issuer")
    return (name, ZitadelProvider(issuer, settings.text("clientId"))) if name and issuer else None


def project(content: Json) -> tuple[str, str] | None:
    """The name of an entry of `projects`, by its id."""
    record = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
    name, words = record.text("projectId"), record.record("project").text("name")
    return (name, words) if name and words else None


def state(content: Json) -> tuple[str, bool] | None:
    """A person of a list of users, and whether they may sign in."""
    record = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
    name = record.text("userId") or record.text("id")
    return (name, record.text("state") in _ACTIVE) if name else None


def person(content: Json, place: str, names: ZitadelNames, told: Sequence[EntryBeside], *, is_active: bool | None) -> ImportedPerson:
    """`is_active` is None for a person that the list of users does not name. Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    notes = Notes()
    entry = SourceRecord(content, notes)
    name, user = required_id(entry, "userId"), entry.record("user")
    profile, email = user.record("profile"), user.record("email")
    if is_active is None:
        notes.add("state: the list of --states does not name the person, who counts as deactivated")
    if user.record("phone").text("phone"):
        notes.add("phone: there is no sign-in by telephone; it stays behind")
    language = profile.text("preferredLanguage")
    claims = {
        "name": profile.content.get("displayName"),
        "given_name": profile.content.get("firstName"),
        "family_name": profile.content.get("lastName"),
        "locale": None if language == _UNKNOWN_LANGUAGE else language,
    }
    secret = user.text("otpCode")
    beside = _Beside(told, notes)
    return ImportedPerson(
        place=place,
        id=name,
        email=email.text("email"),
        email_verified=email.flag("isEmailVerified"),
        is_disabled=is_active is not True,
        profile=profile_of(claims, notes),
        username=user.text("userName"),
        password=_password(user, notes),
        totp=totp_of(secret, notes) if secret else None,
        identities=_identities(beside.of("userLinks"), names, notes),
        roles=tuple(dict.fromkeys(role for one in beside.of("orgMembers") for role in one.texts("roles"))),
        service_roles=_service_roles(beside.of("userGrants"), names, notes),
        fields=_fields(beside.of("userMetadata")),
        notes=notes.all,
    )


class _Beside:
    """The entries that are about one person, by the lists in which they stand."""

    def __init__(self, told: Sequence[EntryBeside], notes: Notes) -> None:
        self._told = told
        self._notes = notes

    def of(self, kind: str) -> Sequence[SourceRecord]:
        return [SourceRecord(one.content, self._notes) for one in self._told if one.kind == kind]


def _password(user: SourceRecord, notes: Notes) -> ForeignHash | None:
    text = user.record("hashedPassword").text("value", LONGEST_HASH)
    if user.flag("passwordChangeRequired"):
        notes.add("password: Zitadel would ask for another one; a new one has to be chosen")
        return None
    if not text and user.content.get("password"):
        notes.add("password: is no hash; a new one has to be chosen")
    return hash_of(foreign_hash, notes, text) if text else None


def _identities(links: Sequence[SourceRecord], names: ZitadelNames, notes: Notes) -> tuple[ImportedIdentity, ...]:
    found: list[ImportedIdentity] = []
    for one in links:
        known, subject = names.providers.get(one.text("idpId")), one.text("providedUserId")
        if known is None or not subject:
            notes.add(f"identity at {one.text('idpName') or 'a provider'}: its issuer is not known; it stays behind")
            continue
        email = one.text("providedUserName")
        found.append(ImportedIdentity(known.issuer, subject, email if "@" in email else "", known.client_id))
    return tuple(found)


def _service_roles(grants: Sequence[SourceRecord], names: ZitadelNames, notes: Notes) -> tuple[tuple[str, str], ...]:
    """A project is what an application is here."""
    found: list[tuple[str, str]] = []
    for one in grants:
        project_name = names.projects.get(one.text("projectId"))
        if project_name is None:
            notes.add("a role: its project is no part of the export; it stays behind")
            continue
        found += [(project_name, role) for role in one.texts("roleKeys")]
    return tuple(found)


def _fields(metadata: Sequence[SourceRecord]) -> Mapping[str, Json]:
    """The values are bytes, in base64. Those that are no text stay behind."""
    found: dict[str, Json] = {}
    for one in metadata:
        key, raw = one.text("key"), bytes_of(one.text("value"))
        try:
            found[key] = (raw or b"").decode()
        except UnicodeDecodeError:
            one.notes.add(f"{key}: is no text")
    return found
