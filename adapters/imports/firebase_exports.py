"""Exports of Firebase Authentication: JSON, or a table without names of columns."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from adapters.imports.broken_files import of_another_kind
from adapters.imports.files import BytesRead, FileSource, ImportFiles, digest_of, elements, files_of, is_table, named_source, values_of
from adapters.imports.tables import PeopleTable, Unnamed, count_rows, people_of_rows
from core.domain.platform.imports import firebase
from core.domain.platform.imports.records import shown
from ports.jobs import Advance

_USERS: Final = "users"
_TABLE: Final = Unnamed(firebase.COLUMNS, firebase.LEAST_COLUMNS)
_NONE: Final = "it has no users of Firebase: write it with firebase auth:export"


def open_firebase(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    files, read = files_of(asked), BytesRead()
    count = sum(_count_rows(path, advance) if is_table(path) else _count_users(path, advance) for path in files)
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


def _count_users(path: Path, advance: Advance) -> int:
    count, is_known = 0, False
    for value in values_of(path, advance):
        if value.key == _USERS and value.number:
            count += 1
            is_known = is_known or firebase.is_user(value.content)
    if not is_known:
        raise of_another_kind(path, _NONE)
    return count


def _count_rows(path: Path, advance: Advance) -> int:
    count = count_rows(path, ",", advance, _TABLE)
    with path.open("rb") as file:
        if all(row.cells is None for row in PeopleTable(file, ",", _TABLE).rows()):
            raise of_another_kind(path, _NONE)
    return count
