"""An area of use cases, put together by names. A use case takes each part by the name of its field, and most parts have one name wherever
they are taken: the table of an area says only what differs. A part that nobody names stops the start. No type checker compares what a use
case takes here with its fields, so `tests/entrypoints/assembly/test_by_name.py` does, for all areas.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from core.frozen import Frozen, names_of, values_of

Area = TypeVar("Area", bound=Frozen)
PartsByName = Mapping[str, Any]


class MemberName(Frozen):
    """As a part: the member of the area with this name."""

    name: str


def members_of(area: type[Frozen], other: Frozen) -> Mapping[str, object]:
    """What another area has under the names of members of the area."""
    return {name: value for name, value in values_of(other).items() if name in names_of(area)}


def assembled(
    area: type[Area],
    stores: object,
    shared: PartsByName,
    own: Mapping[str, PartsByName],
    *,
    made: Mapping[str, object],
    also_called: Mapping[str, str],
) -> Area:
    """`own` has parts of one use case, by its name in the area, and `shared` those of all. A store has the name of the use case that
    looks up there. A use case that others take is found by its name in the area, or by that in `also_called`. `made` are members that
    stand already. Raises `TypeError`.
    """
    members: dict[str, object] = dict(made)
    kinds = area.__annotations__

    def member(name: str) -> object:
        if name not in members:
            members[name] = kinds[name](**{part: found(name, part) for part in names_of(kinds[name])})
        return members[name]

    def found(name: str, part: str) -> object:
        if part in own.get(name, ()):
            return member(taken.name) if isinstance(taken := own[name][part], MemberName) else taken
        if part in shared:
            return shared[part]
        if part == "lookup" and hasattr(stores, name):
            return getattr(stores, name)
        other = also_called.get(part, part)
        if other not in kinds:
            raise TypeError(f"{area.__name__}.{name}: nothing is named as its `{part}`")
        return member(other)

    meant = [part.name for parts in own.values() for part in parts.values() if isinstance(part, MemberName)]
    if unknown := [name for name in (*own, *made, *also_called.values(), *meant) if name not in kinds]:
        raise TypeError(f"{area.__name__} has no {', '.join(unknown)}")
    if untaken := [f"{name}.{part}" for name in own for part in own[name] if name in made or part not in names_of(kinds[name])]:
        raise TypeError(f"nothing of {area.__name__} takes {', '.join(untaken)}")
    return area(**{name: member(name) for name in names_of(area)})
