"""The base class of objects that never change: values of the domain, rows that were read, and use cases with their ports.

A subclass is declared like a dataclass, and a type checker treats the subclass as a dataclass. Python compiles six functions for each
frozen dataclass when its module is imported, which took more than a third of the start time of a process. msgspec ships these functions
compiled.
"""

from typing import TYPE_CHECKING, Any, dataclass_transform

from msgspec import Struct, field
from msgspec.structs import asdict

if TYPE_CHECKING:
    # So that a type checker compares what is given here with the fields.
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Frozen", "field", "names_of", "replace", "values_of"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """Two objects of the same class are equal when their fields are equal."""


def names_of(frozen: Frozen | type[Frozen]) -> tuple[str, ...]:
    """The names of the fields, in order."""
    return frozen.__struct_fields__


def values_of(frozen: Frozen) -> dict[str, Any]:
    """The values of the fields by name, for an object of another class that has these fields from the same base class."""
    return asdict(frozen)
