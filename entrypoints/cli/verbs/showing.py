"""An answer for people: a record as lines, a list as a table. What does not fit there is in `--json`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import inspect

from entrypoints.cli.output.printing import printable
from entrypoints.http.machinery.fields import SHOWN_ONCE

_LONGEST: Final = 100
_LONGEST_IN_TABLE: Final = 40


def shown_lines(answer: Any) -> list[str]:
    if isinstance(answer, list):
        return _table(answer)
    return list(_lines(answer)) or ["Done."]


def once_shown(answer: Any) -> str | None:
    """The name of the field that only this answer shows, such as a key."""
    described = inspect.type_info(answer) if isinstance(answer, type) else None
    fields = described.fields if isinstance(described, inspect.StructType) else ()
    return next((one.encode_name for one in fields if isinstance(one.type, inspect.Metadata) and _is_once(one.type)), None)


def _is_once(kind: inspect.Metadata) -> bool:
    return (kind.extra or {}).items() >= (SHOWN_ONCE.extra or {}).items()


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Objects and tables inside the record stand below the other lines, moved in."""
    plain = {name: value for name, value in record.items() if not _is_large(value)}
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        yield f"{name:<{width}}  {_in_words(value, _LONGEST)}".rstrip()
    for name, value in record.items():
        if _is_large(value):
            yield f"{name}:"
            yield from (f"  {line}" for line in (_table(value) if isinstance(value, list) else _lines(value)))


def _is_large(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _table(rows: Sequence[Any]) -> list[str]:
    """A column for each field with a value that fits into a cell."""
    if not rows:
        return ["none"]
    if not all(isinstance(one, dict) for one in rows):
        return [_in_words(one, _LONGEST) for one in rows]
    names = [name for name in rows[0] if _fits([one.get(name) for one in rows])]
    cells = [names, *([_in_words(one.get(name), _LONGEST_IN_TABLE) for name in names] for one in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _fits(column: Sequence[Any]) -> bool:
    return any(one is not None and one not in ([], {}) for one in column) and not any(map(_is_large, column))


def _in_words(value: Any, longest: int) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return printable(", ".join(map(str, value)), longest)
    return printable(value if isinstance(value, str) else json.dumps(value), longest)
