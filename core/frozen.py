"""The base class of objects that never change: values of the domain, rows that were read, and use cases with their ports.

A subclass is declared like a dataclass, and a type checker treats the subclass as a dataclass. Python compiles six functions for each
frozen dataclass when its module is imported, which took more than a third of the start time of a process. msgspec ships these functions
compiled.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, dataclass_transform

from msgspec import Struct, field, to_builtins
from msgspec.structs import asdict

if TYPE_CHECKING:
    # So that a type checker compares what is given here with the fields.
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Frozen", "field", "json_of", "names_of", "replace", "shared", "values_of"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """Two objects of the same class are equal when their fields are equal."""


def names_of(frozen: Frozen | type[Frozen]) -> tuple[str, ...]:
    """The names of the fields, in order."""
    return frozen.__struct_fields__


def values_of(frozen: Frozen) -> dict[str, Any]:
    """The values of the fields by name, for an object of another class that has these fields from the same base class."""
    return asdict(frozen)


def json_of(frozen: Frozen) -> dict[str, Any]:
    """Returns the values of the fields as JSON has them: ids, enumerations and times are texts, bytes are base64."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in to_builtins(frozen).items()}


def shared(source: type[Frozen], made: type[Frozen], *but: str) -> Callable[[Frozen], dict[str, Any]]:
    """Returns a function that reads the fields that both classes have, `but` those that the caller converts. A type checker does not
    see these values: `tests/adapters/postgres/declarations/test_columns.py` compares their types.
    """
    common = [name for name in names_of(made) if name in names_of(source)]
    if unknown := [name for name in but if name not in common]:
        raise TypeError(f"{source.__name__} and {made.__name__} do not share {', '.join(unknown)}")
    names = [name for name in common if name not in but]
    # Of two names or more, `attrgetter` gives a tuple. The class is read so that there are always two.
    read = attrgetter(*names, "__class__", "__class__")
    SHARED.append((source, made, names))
    return lambda thing: dict(zip(names, read(thing), strict=False))


SHARED: Final[list[tuple[type[Frozen], type[Frozen], list[str]]]] = []
"""Every pair of classes, for the test that compares the types of their fields."""
