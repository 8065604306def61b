"""How answers become objects, and arguments become bodies."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, dataclass_transform, get_args, get_origin, get_type_hints


class _Absent(enum.Enum):
    UNSET = "UNSET"

    def __repr__(self) -> str:
        return self.value

    def __bool__(self) -> Literal[False]:
        return False


Unset = Literal[_Absent.UNSET]
"""The type of `UNSET`."""
UNSET: Unset = _Absent.UNSET
"""The value of an argument or field that is not sent. `None` is sent, as null."""

# Representations end up in logs. Some URLs have a token.
_SECRET = re.compile("secret|token|password|key|code|url|link")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """A frozen object with the fields that the API names. Fields that a later version of Postern adds are left out."""

    # Plain classes, because hundreds of dataclasses would take a third of a second at each import.
    def __init__(self, **fields: Any) -> None:
        names = _hints(type(self))
        if unknown := fields.keys() - names.keys():
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        if missing := [name for name in names if name not in fields and not hasattr(type(self), name)]:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(str(value) for value in self.__dict__.values())))

    def __repr__(self) -> str:
        shown = (f"{name}={'…' if _SECRET.search(name) else repr(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({', '.join(shown)})"


_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(record: type[Any]) -> dict[str, Any]:
    """The types of the fields, resolved once."""
    if record not in _HINTS:
        _HINTS[record] = get_type_hints(record)
    return _HINTS[record]


def decode(kind: Any, value: Any) -> Any:
    """The value of an answer, as the type says. A value that the type does not allow stays as it came: a later version may know more."""
    origin = get_origin(kind)
    if origin in {UnionType, Union}:
        kinds = [one for one in get_args(kind) if one is not NoneType and get_origin(one) is not Literal]
        if len(kinds) > 1:
            # One or a list of them: what came says which.
            kinds = [one for one in kinds if (get_origin(one) is list) is isinstance(value, list)]
        return decode(kinds[0], value) if value is not None and len(kinds) == 1 else value
    if origin is list and isinstance(value, list):
        return [decode(get_args(kind)[0], one) for one in value]
    if origin is dict and isinstance(value, dict):
        return {name: decode(get_args(kind)[1], one) for name, one in value.items()}
    if kind in {datetime, date} and isinstance(value, str):
        return kind.fromisoformat(value)
    if isinstance(kind, type) and issubclass(kind, Record) and isinstance(value, dict):
        return _decoded(kind, value)
    return value


def _decoded(kind: type[Record], value: Mapping[str, Any]) -> Record:
    hints = _hints(kind)
    fields = {name: decode(hint, value[name]) for name, hint in hints.items() if name in value}
    if "additional" in hints:
        fields["additional"] = {name: one for name, one in value.items() if name not in hints}
    # Without a look at what is missing: a server that is older than the client does not send every field.
    made = object.__new__(kind)
    made.__dict__.update(fields)
    return made


def encode(value: object) -> Any:
    if isinstance(value, Record):
        return encode(value.__dict__)
    if isinstance(value, Mapping):
        return {name: encode(one) for name, one in value.items() if one is not UNSET}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [encode(one) for one in value]
    return value
