"""Exports of Zitadel: one document with all organizations, and a list of users that says who is active."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from adapters.imports.documents import Value, of_another_kind
from adapters.imports.files import BytesRead, FileSource, ImportFiles, NotesOnDisk, digest_of, files_of, made, named_source, values_of
from core.domain.errors import BadRequest
from core.domain.platform.imports import zitadel
from core.domain.platform.imports.records import MOST_ITEMS, Found, ImportedPerson, LeftOut, UnreadableRecord, shown
from ports.jobs import Advance

_NO_STATES: Final = (
    "zitadel needs --states FILE: its export does not say who is deactivated, and the answers of POST /v2/users do. "
    "Whom that file does not name as active is deactivated here"
)
_NOBODY: Final = "it has no people of Zitadel: write it with POST /admin/v1/export"
_LIST: Final = "result"
_NO_LIST: Final = "it is no list of Zitadel's users: write it with POST /v2/users"


class _Export:
    """What stands beside the people, mostly behind them in the file."""

    def __init__(self, held: ExitStack) -> None:
        self.count = 0
        self.is_known = False
        self.providers: dict[str, zitadel.ZitadelProvider] = {}
        self.projects: dict[str, str] = {}
        self.organizations: dict[tuple[Path, int], set[str]] = {}
        """What each organization of each file is called, by its number there: its id and its name."""
        self._beside = held.enter_context(closing(NotesOnDisk()))
        self._states = held.enter_context(closing(NotesOnDisk()))

    @property
    def names(self) -> zitadel.ZitadelNames:
        return zitadel.ZitadelNames(providers=self.providers, projects=self.projects)

    def look_at(self, path: Path, value: Value) -> None:
        content = value.content
        match value.key:
            case zitadel.PEOPLE if value.number:
                self.count += 1
                self.is_known = self.is_known or zitadel.is_person(content)
            case "orgId" if isinstance(content, str):
                self.organizations.setdefault((path, value.within), set()).add(content)
            case "org" if isinstance(content, Mapping) and isinstance(content.get("name"), str):
                self.organizations.setdefault((path, value.within), set()).add(content["name"])
            case "oidcIdps" if (idp := zitadel.provider(content)) is not None:
                self.providers[idp[0]] = idp[1]
            case "projects" if (named := zitadel.project(content)) is not None:
                self.projects[named[0]] = named[1]
            case kind if owner := zitadel.owner_of(kind, content):
                self._note(owner, kind, content)

    def _note(self, owner: str, kind: str, content: Any) -> None:
        for number in range(MOST_ITEMS):
            key = f"{owner} {kind} {number}"
            if self._beside.find(key) is None:
                self._beside.note([(key, json.dumps(content).encode())])
                return

    def beside_of(self, owner: str) -> Iterator[zitadel.EntryBeside]:
        for kind in zitadel.BESIDE:
            for number in range(MOST_ITEMS):
                note = self._beside.find(f"{owner} {kind} {number}")
                if note is None:
                    break
                yield zitadel.EntryBeside(kind, json.loads(note))

    def read_states(self, path: Path, advance: Advance) -> None:
        """Raises `BadRequest` and `OSError`."""
        is_known = False
        for value in values_of(path, advance, several=True):
            if value.key == _LIST and (told := zitadel.state(value.content)) is not None:
                name, is_active = told
                self._states.note([(name, b"+" if is_active else b"-")])
                is_known = True
        if not is_known:
            raise of_another_kind(path, _NO_LIST)

    def is_active(self, owner: str) -> bool | None:
        """None for somebody whom the list of users does not name."""
        note = self._states.find(owner)
        return None if note is None else note == b"+"


def open_zitadel(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    if asked.states is None:
        raise BadRequest(_NO_STATES)
    files, read = files_of(asked), BytesRead()
    export = _Export(held)
    for path in files:
        export.is_known = False
        for value in values_of(path, advance, zitadel.WALKED):
            export.look_at(path, value)
        if not export.is_known:
            raise of_another_kind(path, _NOBODY)
    if asked.only_organization and not any(asked.only_organization in names for names in export.organizations.values()):
        raise BadRequest(f"The export has no organization {asked.only_organization}")
    export.read_states(asked.states, advance)
    found = (one for path in files for one in _people(path, asked.only_organization, export, held, read))
    return FileSource(name=named_source(asked), digest=digest_of(asked), count=export.count, relying_party=None, found=found, read=read)


def _people(path: Path, only: str, export: _Export, held: ExitStack, read: BytesRead) -> Iterator[Found]:
    names: Collection[str] = ()

    def person(content: Any, place: str) -> ImportedPerson:
        if only and only not in names:
            raise LeftOut(f"is of another organization than {only} there")
        owner = _id_of(content)
        return zitadel.person(content, place, export.names, list(export.beside_of(owner)), is_active=export.is_active(owner))

    values = values_of(path, read.add, zitadel.WALKED)
    held.callback(values.close)
    for number, value in enumerate((one for one in values if one.key == zitadel.PEOPLE and one.number), 1):
        place = f"{shown(path.name)}, user {number}"
        names = export.organizations.get((path, value.within), ())
        yield UnreadableRecord(place, value.fault) if value.fault else made(person, value.content, place)


def _id_of(content: Any) -> str:
    owner = content.get("userId") if isinstance(content, Mapping) else None
    return owner if isinstance(owner, str) else ""
