"""Adds the new columns of a table to the view of its rows in adapters/postgres/schema/replaceable.sql.

A view keeps the order of its columns, because `create or replace view` takes new ones at the end only. So the file has the order, and the
migrations have the names. `python -m ops.written.functions` brings both together.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from adapters.postgres.migrating.schema import NotReplaceable

_MIGRATIONS: Final = Path(__file__).resolve().parents[2] / "adapters" / "postgres" / "migrations"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_INDENT: Final = " " * 11
_WIDTH: Final = 140
_LIST: Final = r"(?P<before>^create or replace view {name} as\n    select )(?P<list>[^;]*?)(?=\n      from {table}\n)"
_MADE: Final = r"^create table {table} \(\n(?P<body>.*?)^\);"
_CHANGED: Final = r"^alter table (?:only )?{table}\b(?P<body>[^;]*);"
_COLUMN: Final = re.compile(r"^    (?!constraint |check |primary key|foreign key|unique |exclude )([a-z]\w*) ", re.MULTILINE)
_CHANGE: Final = re.compile(r"\b(?P<act>add|drop) column (?:if (?:not )?exists )?(?P<name>\w+)")


class View(NamedTuple):
    name: str
    table: str
    left_out: frozenset[str]
    computed: Mapping[str, str] = _NOTHING
    """The expressions of columns that the table does not have."""


VIEWS: Final = (
    View("organizations", "all_organizations", frozenset({"deleted_at"})),
    View(
        "services",
        "all_services",
        # The digest of a document is compared for deleted services, too.
        frozenset({"deleted_at", "document_digest"}),
        MappingProxyType({"oauth_client_id": "coalesce(kept_client_id, client_id::text)"}),
    ),
    View("profile_fields", "all_profile_fields", frozenset({"deleted_at"})),
)


def migrations() -> Sequence[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(_MIGRATIONS.glob("*.sql"))]


def columns_of(table: str, texts: Iterable[str]) -> Sequence[str]:
    """The columns that the table has after these migrations."""
    columns: dict[str, None] = {}
    for text in texts:
        if (made := re.search(_MADE.format(table=table), text, re.MULTILINE | re.DOTALL)) is not None:
            columns |= dict.fromkeys(_COLUMN.findall(made["body"]))
        for changed in re.finditer(_CHANGED.format(table=table), text, re.MULTILINE):
            for change in _CHANGE.finditer(changed["body"]):
                if change["act"] == "add":
                    columns[change["name"]] = None
                else:
                    columns.pop(change["name"], None)
    return [*columns]


def with_columns(file: str, view: View, columns: Sequence[str]) -> str:
    """The file with the table's new columns at the end of the view's list. Raises `NotReplaceable` for a listed column that the table does
    not have: a view loses a column by a migration.
    """
    found = re.search(_LIST.format(name=view.name, table=view.table), file, re.MULTILINE)
    if found is None:
        raise NotReplaceable(f"have no view {view.name} of the rows of {view.table}")
    names = found["list"]
    for name, expression in view.computed.items():
        names = names.replace(f"{expression} as {name}", name)
    listed = re.split(r",\s+", names)
    shown = {*columns, *view.computed} - view.left_out
    if gone := [name for name in listed if name not in shown]:
        raise NotReplaceable(f"have a view {view.name} with columns that {view.table} lacks, or that it leaves out: {', '.join(gone)}")
    *lines, last = f"{found['before']}{found['list']}".split("\n")
    for name in [*columns, *view.computed]:
        if name in listed or name in view.left_out:
            continue
        item = f"{view.computed[name]} as {name}" if name in view.computed else name
        if len(f"{last}, {item}") > _WIDTH:
            lines.append(f"{last},")
            last = f"{_INDENT}{item}"
        else:
            last = f"{last}, {item}"
    return file[: found.start()] + "\n".join((*lines, last)) + file[found.end() :]
