"""The types of a document's entries, made of the types of endpoints' bodies. Every field of an entry may be left out."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Union, get_type_hints

import msgspec

SOURCES: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {}
"""The types that an entry is made of, by the name of the entry. The descriptions of fields stand there."""


def entry(
    name: str, *bodies: type[msgspec.Struct], without: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> type[msgspec.Struct]:
    """The type of an entry. `without` names fields that no document has; `more` has fields that no body has, with their types."""
    fields: dict[str, Any] = {}
    for body in bodies:
        hints = get_type_hints(body, include_extras=True)
        fields |= {one.name: hints[one.name] for one in msgspec.structs.fields(body) if one.name not in without}
    fields |= more or {}
    SOURCES[name] = bodies
    made: type[msgspec.Struct] = msgspec.defstruct(
        name,
        [(one, kind if kind is Any else Union[kind, msgspec.UnsetType], msgspec.UNSET) for one, kind in fields.items()],  # noqa: UP007
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return made


def named_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(one.encode_name for one in msgspec.structs.fields(kind))


def needed_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields that a body cannot do without."""
    return frozenset(one.encode_name for one in msgspec.structs.fields(kind) if one.required)
