"""Prints times, text that others wrote, and JSON, for commands."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import NoneType
from typing import Any, Final
from uuid import UUID

from core.domain.formats import timestamp
from core.domain.mail import Email
from core.domain.secrets import Secret
from core.frozen import names_of


def printable(text: str, longest: int = 60) -> str:
    """Text that others wrote, without the control characters that a terminal would obey."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def print_json(value: Any) -> None:
    """Prints an object for programs: a record, or a list of records with their number, as the API's lists are. Only ASCII characters, so
    that no text of others reaches the terminal raw.
    """
    told = plain(value)
    print(json.dumps({"items": told, "total": len(told)} if isinstance(told, list) else told, indent=2))


def tell(record: Any, *lines: str, as_json: bool) -> None:
    """What a command has done: the record for programs, or the lines for people."""
    if as_json:
        print_json(record)
    else:
        print("\n".join(lines))


def plain(value: Any) -> Any:
    """The value in JSON's terms: a record is an object, a moment is a text with its offset. A secret is never in a record."""
    for kind, written in _WRITTEN:
        if isinstance(value, kind):
            return written(value)
    return {name: plain(getattr(value, name)) for name in names_of(value)}


def _refused(_value: Secret) -> Any:
    raise TypeError("A record with a secret is not printed")


# The first kind that fits decides: an enumeration of ours is also a string.
_WRITTEN: Final[Sequence[tuple[Any, Callable[[Any], Any]]]] = (
    (Enum, lambda value: value.value),
    ((NoneType, bool, int, float), lambda value: value),
    (datetime, timestamp),
    (timedelta, lambda value: value.total_seconds()),
    (Email, lambda value: value.address),
    (Secret, _refused),
    ((str, UUID), str),
    (Mapping, lambda value: {str(key): plain(one) for key, one in value.items()}),
    ((list, tuple), lambda value: [plain(one) for one in value]),
    ((set, frozenset), lambda value: sorted(plain(one) for one in value)),
)
