"""Assembles the use cases of an area from parts, by the names of their fields."""

from collections.abc import Mapping
from typing import Any, TypeVar

from core.frozen import Frozen, names_of, values_of

Family = TypeVar("Family", bound=Frozen)
PartsByName = Mapping[str, Any]


class MemberName(Frozen):
    """As a part: the member of the family with this name."""

    name: str


def members_of(family: type[Frozen], other: Frozen) -> Mapping[str, object]:
    """What another family has under the names of members of the family."""
    return {name: value for name, value in values_of(other).items() if name in names_of(family)}


def assembled(
    family: type[Family],
    stores: object,
    shared: PartsByName,
    own: Mapping[str, PartsByName],
    *,
    made: Mapping[str, object],
    also_called: Mapping[str, str],
) -> Family:
    """`own` has parts of one use case, by its name in the family, and `shared` those of all. A store has the name of the use case that
    looks up there. A use case that others take is found by its name in the family, or by that in `also_called`. `made` are members that
    stand already. Raises `TypeError`.

    Most parts have one name wherever they are taken: the table of an area states only what differs. A part that nobody names stops the
    start. No type checker compares what a use case takes here with its fields, so `tests/entrypoints/assembly/test_by_name.py` does, for
    all areas.
    """
    members: dict[str, object] = dict(made)
    kinds = family.__annotations__

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
            raise TypeError(f"{family.__name__}.{name}: nothing is named as its `{part}`")
        return member(other)

    meant = [part.name for parts in own.values() for part in parts.values() if isinstance(part, MemberName)]
    if unknown := [name for name in (*own, *made, *also_called.values(), *meant) if name not in kinds]:
        raise TypeError(f"{family.__name__} has no {', '.join(unknown)}")
    if untaken := [f"{name}.{part}" for name in own for part in own[name] if name in made or part not in names_of(kinds[name])]:
        raise TypeError(f"nothing of {family.__name__} takes {', '.join(untaken)}")
    return family(**{name: member(name) for name in names_of(family)})
