"""Opens realm exports of Keycloak: one file, or a folder with the realm in one file and its users in others."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from adapters.imports.documents import Value, of_another_kind
from adapters.imports.files import BytesRead, FileSource, ImportFiles, NotesOnDisk, digest_of, elements, files_of, values_of
from core.domain.errors import BadRequest
from core.domain.platform.imports import keycloak
from core.domain.platform.imports.keycloak_clients import RealmParts
from core.domain.platform.imports.records import LONGEST_ID, ImportedPerson, LeftOut, shown
from ports.jobs import Advance, ignored

_RELYING_PARTIES: Final = ("webAuthnPolicyRpId", "webAuthnPolicyPasswordlessRpId")

_NOBODY: Final = (
    "the realm has no people. An export of the admin console leaves them out; on Keycloak's host, this one has them: "
    "kc.sh export --dir export --realm NAME --users different_files"
)


class _Realm:
    """What stands beside the people, who may come before it in the file."""

    def __init__(self, only: str, held: ExitStack) -> None:
        self.names: set[str] = set()
        self.parties: set[str] = set()
        self.brokers: dict[str, keycloak.Broker] = {}
        self.count = 0
        self.has_people = False
        self.members = held.enter_context(closing(NotesOnDisk())) if only else None
        self.has_organization = False
        self._only = only

    def look_at(self, value: Value) -> None:
        content = value.content
        match value.key:
            case "users":
                self.count += 1
                self.has_people = self.has_people or not keycloak.is_of_client(content)
            case "realm" if isinstance(content, str):
                self.names.add(content)
            case "identityProviders" if (known := keycloak.broker(content)) is not None:
                self.brokers[known[0]] = known[1]
            case "organizations" if self.members is not None and keycloak.is_organization(content, self._only):
                self.has_organization = True
                self.members.note((name, b"") for name in keycloak.members(content))
            case key if key in _RELYING_PARTIES and isinstance(content, str) and content:
                self.parties.add(content)


def open_realm(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    files = files_of(asked)
    seen = _Realm(asked.only_organization, held)
    for path in files:
        for value in values_of(path, advance):
            if value.key == "":
                raise of_another_kind(path, "it is no export of one realm; export it with --realm")
            seen.look_at(value)
    name = _name_of(seen, files, asked)
    read = BytesRead()
    realm = keycloak.KeycloakRealm(name=name, brokers=seen.brokers)
    members = seen.members

    def person(content: Any, place: str) -> ImportedPerson:
        made = keycloak.person(content, place, realm)
        if members is not None and members.find(made.id) is None and members.find(made.username) is None:
            raise LeftOut(f"is no member of {asked.only_organization} there")
        return made

    return FileSource(
        name=f"keycloak:{asked.name or name}",
        digest=digest_of(asked),
        count=seen.count,
        relying_party=seen.parties.pop() if len(seen.parties) == 1 else None,
        found=(one for path in files for one in elements(path, "users", person, held, read)),
        read=read,
    )


def _name_of(seen: _Realm, files: Sequence[Path], asked: ImportFiles) -> str:
    """Raises `BadRequest` where the files are not those of one realm with people."""
    if not seen.names:
        raise of_another_kind(files[0], "it names no realm")
    if not seen.has_people:
        raise BadRequest(f"{shown(files[0].name)}: {_NOBODY}")
    if len(seen.names) > 1:
        raise BadRequest(f"The files are of {len(seen.names)} realms; name those of one")
    if asked.only_organization and not seen.has_organization:
        raise BadRequest(f"The realm has no organization {asked.only_organization}, or one that is too large to read")
    (name,) = seen.names
    if len(name) > LONGEST_ID or not name.isprintable():
        raise BadRequest(f"realm: must have at most {LONGEST_ID} characters, all of them visible")
    return name


def parts_of(asked: ImportFiles) -> RealmParts:
    """What of the realm becomes configuration. Raises `BadRequest` and `OSError`."""
    clients: list[Any] = []
    groups: list[Any] = []
    roles: Any = None
    texts: dict[str, Any] = {}
    language: Any = None
    for path in files_of(asked):
        for value in values_of(path, ignored):
            if value.key == "clients" and value.number:
                clients.append(value.content)
            elif value.key == "groups" and value.number:
                groups.append(value.content)
            elif value.key == "roles":
                roles = value.content
            elif value.key == "localizationTexts" and isinstance(value.content, dict):
                texts = value.content
            elif value.key == "defaultLocale":
                language = value.content
    return RealmParts(clients, roles, groups, texts, language)
