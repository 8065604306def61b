"""Opens the files of another system: looks through all of them once, and then reads person by person."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import trio

from adapters.imports.authentik_blueprints import open_authentik
from adapters.imports.cloud_exports import open_cognito, open_firebase
from adapters.imports.documents import BrokenFile, of_another_kind
from adapters.imports.files import (
    BytesRead,
    FileSource,
    ImportFiles,
    NotesOnDisk,
    count_elements,
    count_objects,
    digest_of,
    elements,
    files_of,
    first_line,
    is_list,
    lines,
    loaded,
    named_source,
    objects,
    require_json,
)
from adapters.imports.keycloak_realms import open_realm
from adapters.imports.tables import BrokenTable, EmptyTable, PeopleTable, count_rows, people_of_rows
from adapters.imports.zitadel_exports import open_zitadel
from core.domain.errors import BadRequest
from core.domain.platform.imports import auth0, postern, tables
from core.domain.platform.imports.records import Found, ImportedPerson
from ports.jobs import Advance


@asynccontextmanager
async def opened(asked: ImportFiles, advance: Advance) -> AsyncIterator[FileSource]:
    """`advance` hears how many bytes were looked through. Raises `BadRequest` for files that are none of this kind, and `OSError`."""
    with ExitStack() as held:
        source = await trio.to_thread.run_sync(_OPENERS[asked.kind], asked, held, advance)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.read_ahead)
            try:
                yield source
            except Exception as error:  # noqa: BLE001 - raised below, since the nursery would wrap it into a group
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure


def total_size(asked: ImportFiles) -> int:
    """Raises `BadRequest` and `OSError`."""
    return sum(path.stat().st_size for path in [*files_of(asked), *asked.beside])


def _open_auth0(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    hashes = None if asked.hashes is None else _Hashes(asked.hashes, held, advance)

    def person(content: Any, place: str) -> ImportedPerson:
        user_id = content.get("user_id") if isinstance(content, Mapping) else None
        return auth0.person(content, place, hashes.find(user_id) if hashes is not None and isinstance(user_id, str) else None)

    files, read = files_of(asked), BytesRead()
    found = (
        one for path in files for one in (elements(path, "", person, held, read) if is_list(path) else objects(path, person, held, read))
    )
    count = sum(count_elements(path, "", advance) if is_list(path) else count_objects(path, advance) for path in files)
    return FileSource(
        name=named_source(asked),
        digest=digest_of(asked),
        count=count,
        relying_party=None,
        found=found,
        read=read,
    )


def _open_table(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    files, read = files_of(asked), BytesRead()
    opened_tables: list[tuple[str, PeopleTable, tables.TableMap]] = []
    for path in files:
        try:
            table = PeopleTable(held.enter_context(path.open("rb")), asked.delimiter)
        except EmptyTable as fault:
            raise BrokenFile(path, str(fault), 1, 0) from None
        except BrokenTable as fault:
            raise of_another_kind(path, str(fault)) from None
        try:
            columns = tables.table_map(table.columns, asked.columns)
        except BadRequest as refusal:
            raise of_another_kind(path, refusal.message + _other_delimiter(table.columns)) from None
        opened_tables.append((path.name, table, columns))

    def found() -> Iterator[Found]:
        for name, table, columns in opened_tables:
            person = partial(tables.person, columns=columns, form=asked.form)
            yield from people_of_rows(table, name if len(files) > 1 else "", person, read)

    count = sum(count_rows(path, asked.delimiter, advance) for path in files)
    return FileSource(name=named_source(asked), digest=digest_of(asked), count=count, relying_party=None, found=found(), read=read)


def _other_delimiter(columns: Sequence[str]) -> str:
    """Advice where the first line is one name for our delimiter, and several for another one."""
    if len(columns) != 1:
        return ""
    option = next((option for mark, option in ((";", "';'"), ("\t", "tab"), (",", "','")) if mark in columns[0]), "")
    return f". The names are separated by {option}: add --delimiter {option}" if option else ""


def _open_postern(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    files, read = files_of(asked), BytesRead()
    first = [_beginning(path) for path in files]
    if len(set(first)) != 1:
        raise BadRequest("The files come from different sources; import one after the other")
    found = (one for path in files for one in islice(objects(path, partial(postern.person, form=asked.form), held, read), 1, None))
    count = sum(count_objects(path, advance) - 1 for path in files)
    name, party = first[0].source, first[0].relying_party
    return FileSource(
        name=f"postern:{asked.name or name}",
        digest=digest_of(asked),
        count=count,
        relying_party=party or None,
        found=found,
        read=read,
    )


def _beginning(path: Path) -> postern.PeopleHeader:
    try:
        return postern.beginning(first_line(path))
    except BadRequest as refusal:
        raise of_another_kind(path, refusal.message) from None


_OPENERS: Final[Mapping[str, Callable[[ImportFiles, ExitStack, Advance], FileSource]]] = {
    "keycloak": open_realm,
    "auth0": _open_auth0,
    "csv": _open_table,
    "postern": _open_postern,
    "firebase": open_firebase,
    "cognito": open_cognito,
    "zitadel": open_zitadel,
    "authentik": open_authentik,
}


class _Hashes:
    """Auth0's file of password hashes, in which the line of each person is found again. What is kept of it are places in the file."""

    def __init__(self, path: Path, held: ExitStack, advance: Advance) -> None:
        self._path = path
        self._file = held.enter_context(path.open("rb"))
        self._places = held.enter_context(closing(NotesOnDisk()))
        self._places.note(self._read(advance))

    def find(self, user: str) -> Any:
        place = self._places.find(user)
        if place is None:
            return None
        self._file.seek(int.from_bytes(place, "big"))
        return loaded(self._file.readline())[0]

    def _read(self, advance: Advance) -> Iterator[tuple[str, bytes]]:
        for line in lines(self._file):
            advance(len(line.content or b""))
            key = auth0.hash_key(require_json(self._path, line))
            if key:
                yield key, line.place.to_bytes(8, "big")
