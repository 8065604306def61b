"""Exports of Amazon Cognito (pages of JSON, or a table) and of Firebase Authentication (JSON, or a table without names of columns)."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.imports.documents import BrokenDocument, broken, of_another_kind
from adapters.imports.files import (
    BytesRead,
    FileSource,
    ImportFiles,
    digest_of,
    document,
    elements,
    files_of,
    is_table,
    made,
    named_source,
    values_of,
)
from adapters.imports.tables import BrokenTable, PeopleTable, Unnamed, count_rows, people_of_rows
from core.domain.errors import BadRequest
from core.domain.platform.imports import cognito, firebase
from core.domain.platform.imports.records import Found, UnreadableRecord, shown
from ports.jobs import Advance

_NO_COGNITO_USERS: Final = "it has no users of Cognito: write it with aws cognito-idp list-users"
_NO_COLUMN: Final = f"its first line does not name the column {cognito.USERNAME_COLUMN}"
_CUT: Final = "each of its pages says that another one follows: the last one is missing"


class _Pages:
    """What was read of a file. It is whole as soon as one page says that no other follows."""

    def __init__(self) -> None:
        self.number = 0
        self.followed = 0


def open_cognito(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    files, read = files_of(asked), BytesRead()
    pages = _Pages()
    count = sum(_count_cognito_rows(path, advance) if is_table(path) else _count_cognito_users(path, pages, advance) for path in files)
    if pages.number and pages.followed == pages.number:
        raise BadRequest(f"{shown(files[-1].name)}: {_CUT}. No people were imported")
    found = (one for path in files for one in (_rows(path, held, read) if is_table(path) else _people(path, held, read)))
    return FileSource(name=named_source(asked), digest=digest_of(asked), count=count, relying_party=None, found=found, read=read)


def _users(path: Path, pages: _Pages, advance: Advance) -> Generator[tuple[Any, str], None, None]:
    """Users, and the reasons why one has no content. Raises `BrokenFile` and `BadRequest`."""
    with path.open("rb") as file:
        opened, in_list = document(file, advance), 0
        try:
            for value in opened.values(several=True):
                if value.key in cognito.NEXT_PAGE and value.content:
                    pages.followed += 1
                elif value.key == cognito.USERS and value.number:
                    yield value.content, value.fault
                elif value.key == "" and value.number and cognito.is_page(value.content):
                    in_list += 1
                    pages.followed += not cognito.is_last(value.content)
                    yield from ((one, "") for one in value.content[cognito.USERS])
                elif value.key == "" and value.number and value.fault and in_list:
                    raise BadRequest(f"{shown(path.name)}, page {value.number}: {value.fault}. Name it as a file of its own")
                elif value.key == "" and value.number:
                    yield value.content, value.fault
        except BrokenDocument as fault:
            raise broken(path, fault) from None
        pages.number += in_list or opened.documents


def _count_cognito_users(path: Path, pages: _Pages, advance: Advance) -> int:
    count, is_known = 0, False
    for content, _ in _users(path, pages, advance):
        count += 1
        is_known = is_known or cognito.is_user(content)
    if not is_known:
        raise of_another_kind(path, _NO_COGNITO_USERS)
    return count


def _people(path: Path, held: ExitStack, read: BytesRead) -> Iterator[Found]:
    users = _users(path, _Pages(), read.add)
    held.callback(users.close)
    for number, (content, fault) in enumerate(users, 1):
        place = f"{shown(path.name)}, user {number}"
        yield UnreadableRecord(place, fault) if fault else made(cognito.person, content, place)


def _count_cognito_rows(path: Path, advance: Advance) -> int:
    try:
        with path.open("rb") as file:
            columns = PeopleTable(file, ",").columns
    except BrokenTable as fault:
        raise of_another_kind(path, str(fault)) from None
    if cognito.USERNAME_COLUMN not in columns:
        raise of_another_kind(path, _NO_COLUMN)
    return count_rows(path, ",", advance)


def _rows(path: Path, held: ExitStack, read: BytesRead) -> Iterator[Found]:
    table = PeopleTable(held.enter_context(path.open("rb")), ",")
    return people_of_rows(table, shown(path.name), cognito.person_of_row, read)


_USERS: Final = "users"
_TABLE: Final = Unnamed(firebase.COLUMNS, firebase.LEAST_COLUMNS)
_NO_FIREBASE_USERS: Final = "it has no users of Firebase: write it with firebase auth:export"


def open_firebase(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    files, read = files_of(asked), BytesRead()
    count = sum(_count_firebase_rows(path, advance) if is_table(path) else _count_firebase_users(path, advance) for path in files)
    found = (
        one
        for path in files
        for one in (
            people_of_rows(
                PeopleTable(held.enter_context(path.open("rb")), ",", _TABLE),
                shown(path.name),
                partial(firebase.person_of_row, form=asked.form),
                read,
            )
            if is_table(path)
            else elements(path, _USERS, partial(firebase.person, form=asked.form), held, read)
        )
    )
    return FileSource(name=named_source(asked), digest=digest_of(asked), count=count, relying_party=None, found=found, read=read)


def _count_firebase_users(path: Path, advance: Advance) -> int:
    count, is_known = 0, False
    for value in values_of(path, advance):
        if value.key == _USERS and value.number:
            count += 1
            is_known = is_known or firebase.is_user(value.content)
    if not is_known:
        raise of_another_kind(path, _NO_FIREBASE_USERS)
    return count


def _count_firebase_rows(path: Path, advance: Advance) -> int:
    count = count_rows(path, ",", advance, _TABLE)
    with path.open("rb") as file:
        if all(row.cells is None for row in PeopleTable(file, ",", _TABLE).rows()):
            raise of_another_kind(path, _NO_FIREBASE_USERS)
    return count
