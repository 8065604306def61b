"""Values go from bodies to the domain and from the domain to records by the names of fields. Mistakes show when modules are imported."""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from core.domain.requests import UNCHANGED, Unchanged
from core.frozen import Frozen
from entrypoints.http.machinery.derived import ALL, Derived, shown, taken, turned, type_at
from entrypoints.http.routes import ROUTES

ThingId = NewType("ThingId", UUID)
ID = ThingId(UUID(int=7))


class Maker(Frozen):
    name: str

    @property
    def initial(self) -> str:
        return self.name[0]


class Thing(Frozen, kw_only=True):
    id: ThingId
    size: int
    maker: Maker

    @property
    def is_large(self) -> bool:
        return self.size > 10


class ThingChange(Frozen, kw_only=True):
    size: int | Unchanged = UNCHANGED
    colours: frozenset[str] | Unchanged = UNCHANGED


class ThingPatch(msgspec.Struct, kw_only=True):
    size: int | UnsetType = UNSET
    colours: Sequence[str] | UnsetType = UNSET


class ThingRecord(msgspec.Struct, kw_only=True):
    id: UUID
    size: int
    is_large: bool


class MadeRecord(ThingRecord, kw_only=True):
    initial: str
    made_by: str
    words: str
    seen: int


def test_what_a_body_leaves_out_stays_at_its_default() -> None:
    change = taken(ThingPatch, ThingChange, colours=lambda body: turned(body.colours, frozenset))
    assert change(ThingPatch()) == ThingChange()
    assert change(ThingPatch(size=3)) == ThingChange(size=3)
    assert change(ThingPatch(colours=["red", "red"])) == ThingChange(colours=frozenset({"red"}))


def test_a_record_has_values_of_equal_names_renamed_values_and_computed_ones() -> None:
    thing = Thing(id=ID, size=11, maker=Maker("Ada"))
    assert shown(Thing, ThingRecord)(thing) == ThingRecord(id=ID, size=11, is_large=True)
    record = shown(
        Thing,
        MadeRecord,
        within=("maker",),
        given=("seen",),
        named={"made_by": "maker.name"},
        words=lambda thing: f"{thing.maker.name}: {thing.size}",
    )
    assert record(thing, seen=2) == MadeRecord(id=ID, size=11, is_large=True, initial="A", made_by="Ada", words="Ada: 11", seen=2)


def test_the_handler_may_read_a_field_itself_and_a_call_may_give_one() -> None:
    class Body(msgspec.Struct):
        size: int
        reason: str

    made = taken(Body, Thing, apart=("reason",), given=("id", "maker"))
    assert made(Body(3, "why"), id=ID, maker=Maker("Ada")) == Thing(id=ID, size=3, maker=Maker("Ada"))


class Named(Frozen):
    name: str
    maker: Maker


class Renamed(msgspec.Struct):
    width: int


@pytest.mark.parametrize(
    ("declaration", "named"),
    [
        (lambda: taken(ThingPatch, Maker), "Maker: name: ThingPatch has no such field"),
        (lambda: taken(Renamed, ThingChange, named={"size": "width"}), "ThingChange: colours: Renamed has no such field"),
        (lambda: taken(ThingPatch, Renamed, named={"width": "size"}), "ThingPatch: colours: Renamed has no such field"),
        (lambda: taken(ThingPatch, ThingChange, named={"colour": "colours"}), "ThingChange: there is no colour"),
        (lambda: taken(ThingPatch, ThingChange, given=("shape",)), "ThingChange: there is no shape"),
        (lambda: taken(Renamed, ThingChange, given=("colours",), named={"size": "breadth"}), "there is no breadth"),
        (lambda: shown(Maker, ThingRecord), "ThingRecord: id, size, is_large: Maker has no such field"),
        (lambda: shown(Thing, Renamed, named={"width": "maker.width"}), "there is no width"),
        (lambda: shown(Thing, Renamed, within=("owner",)), "there is no owner"),
        (lambda: shown(Named, Maker, within=("maker",)), "Named: name and maker.name: say which one"),
        (lambda: shown(Thing, int), "int has no fields"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(declaration: Callable[[], object], named: str) -> None:
    with pytest.raises(TypeError, match=named):
        declaration()


def test_every_declared_copy_keeps_the_type_of_its_value() -> None:
    assert ROUTES
    copies = [one for one in ALL if not one.made.__module__.startswith("tests.")]
    assert len(copies) > 3
    assert [words for one in copies for words in unfit(one)] == []


@pytest.mark.parametrize(
    ("value", "field", "fits"),
    [
        (ThingId, UUID, True),
        (UUID, str, False),
        (str | None, str, False),
        (str, Annotated[str, "text"] | UnsetType | None, True),
        (int | UnsetType, int | Unchanged, True),
        (tuple[str, ...], Sequence[str], True),
        (tuple[str, ...], Sequence[int], False),
        (frozenset[str], Sequence[str], False),
        (dict[str, int], Mapping[str, Any], True),
        (Mapping[str, str], dict[str, str], False),
        (type_at(Thing, "is_large"), int, True),
    ],
)
def test_a_wrong_type_is_seen(value: Any, field: Any, fits: bool) -> None:
    assert can_hold(field, value) is fits


def unfit(one: Derived[Any, Any]) -> list[str]:
    fields = get_type_hints(one.made, include_extras=True)
    return [
        f"{one.made.__name__}.{name} is {fields[name]}, and {one.source.__name__}.{place} is {type_at(one.source, place)}"
        for name, place in one.places.items()
        if not can_hold(fields[name], type_at(one.source, place))
    ]


def can_hold(field: Any, value: Any) -> bool:
    """Whether every value of the type `value` may stand in a field of the type `field`."""
    wanted, given = plain(field), plain(value)
    if Any in wanted | given:
        return True
    return all(any(holds_one(kind, one) for kind in wanted) for one in given if one is not UnsetType)


def holds_one(field: Any, value: Any) -> bool:
    if isinstance(field, TypeVar | types.GenericAlias | str) and field == value:
        return True
    outer, inner = get_origin(field) or field, get_origin(value) or value
    if not isinstance(outer, type) or not isinstance(inner, type):
        return bool(outer == inner)
    if not issubclass(inner, outer) and (outer, inner) != (float, int):
        return False
    pairs = zip(without_ellipsis(get_args(field)), without_ellipsis(get_args(value)), strict=False)
    return all(can_hold(one, other) for one, other in pairs)


def without_ellipsis(kinds: Sequence[Any]) -> Sequence[Any]:
    return [kind for kind in kinds if kind is not ...]


def plain(kind: Any) -> frozenset[Any]:
    """The members of a union, or the one type, without annotations and names of ids."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if isinstance(kind, NewType):
        return plain(kind.__supertype__)
    if get_origin(kind) in {Union, types.UnionType}:
        return frozenset[Any]().union(*map(plain, get_args(kind)))
    return frozenset({kind})
