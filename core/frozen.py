"""What an object that never changes is made of: a value of the domain, a row that was read, a use case and the ports that it works with.

One is declared as a dataclass would be, and to a type checker it is one. To make a frozen dataclass, Python compiles six functions for it
when its module is imported, which took more than a third of the time that a process needs to start; msgspec brings them along, compiled.
"""

from typing import TYPE_CHECKING, dataclass_transform

from msgspec import Struct, field

if TYPE_CHECKING:
    # So that a type checker compares what is given here with the fields.
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Frozen", "field", "names_of", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """Two of the same class whose fields are equal are equal."""


def names_of(frozen: Frozen | type[Frozen]) -> tuple[str, ...]:
    """Of its fields, in order."""
    return frozen.__struct_fields__
