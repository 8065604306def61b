"""What is copied between a request or answer and the domain: fields go by their names, and a declaration names the exceptions.

    _wanted = taken(NewServiceBody, NewService)
    _record = shown(Service, ServiceRecord, named={"org_id": "organization"}, has_keys=lambda service: service.jwks is not None)

`_wanted(call.body)` makes a `NewService`, and `_record(service)` makes a `ServiceRecord`. `named` has the places of values by the fields
that have another name, with dots for what stands deeper. A keyword computes the value of its field. A field without a source, or a field
of a body that goes nowhere, is a `TypeError` when the module is imported. `tests/http/machinery/test_derived.py` compares the types of all
fields.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, get_type_hints

from msgspec import UNSET, Struct, UnsetType

Source = TypeVar("Source")
Made = TypeVar("Made")
Given = TypeVar("Given")
Turned = TypeVar("Turned")


NO_NAMES: Final[Mapping[str, str]] = {}


class Derived(Generic[Source, Made]):
    """Makes an object of another object's values. A value that is `UNSET` is left out, so that the default of what is made counts."""

    def __init__(
        self, source: type[Source], made: type[Made], places: Mapping[str, str], computed: Mapping[str, Callable[[Source], object]]
    ) -> None:
        self.source: Final = source
        self.made: Final = made
        self.places: Final = places
        self._names: Final = tuple(places)
        # Of two names or more, `attrgetter` gives a tuple. The class is read so that there are always two.
        self._read: Final = attrgetter(*places.values(), "__class__", "__class__")
        self._computed: Final = tuple(computed.items())
        self._may_lack: Final = any(default is UNSET for default in getattr(source, "__struct_defaults__", ()))
        ALL.append(self)

    def __call__(self, source: Source, /, **given: object) -> Made:
        """`given` are the fields that the declaration leaves to its calls."""
        values: dict[str, Any] = dict(zip(self._names, self._read(source), strict=False))
        for name, compute in self._computed:
            values[name] = compute(source)
        if self._may_lack:
            values = {name: value for name, value in values.items() if value is not UNSET}
        return self.made(**values, **given)


ALL: Final[list[Derived[Any, Any]]] = []
"""Every declaration, for the test that compares types."""


def taken(
    body: type[Source],
    made: type[Made],
    *,
    apart: Collection[str] = (),
    given: Collection[str] = (),
    named: Mapping[str, str] = NO_NAMES,
    **computed: Callable[[Source], object],
) -> Derived[Source, Made]:
    """What the domain makes of a body. The handler reads the fields `apart` itself. Its calls give the fields `given` of what is made, or
    leave them out.
    """
    derived = _derived(body, made, (), given, named=named, computed=computed)
    used = {*derived.places.values(), *computed, *apart}
    if unused := [name for name in _fields(body) if name not in used]:
        raise TypeError(f"{body.__name__}: {', '.join(unused)}: {made.__name__} has no such field")
    return derived


def shown(
    thing: type[Source],
    record: type[Made],
    *,
    within: Collection[str] = (),
    given: Collection[str] = (),
    named: Mapping[str, str] = NO_NAMES,
    **computed: Callable[[Source], object],
) -> Derived[Source, Made]:
    """The record of a thing. A field is read from the thing or from a thing `within` it. Calls give the fields `given`."""
    return _derived(thing, record, within, given, named=named, computed=computed)


def turned(value: Given | UnsetType, turn: Callable[[Given], Turned]) -> Turned | UnsetType:
    """For a value of a body that the domain has in another form. `UNSET` stays."""
    return UNSET if isinstance(value, UnsetType) else turn(value)


def type_at(kind: Any, place: str) -> Any:
    """The declared type of an attribute: a field's or a property's. Raises `TypeError` if there is none."""
    for name in place.split("."):
        prop = getattr(kind, name, None)
        hints = get_type_hints(prop.fget if isinstance(prop, property) else kind, include_extras=True)
        found = hints.get("return" if isinstance(prop, property) else name)
        if found is None:
            raise TypeError(f"{kind}: there is no {name}")
        kind = found
    return kind


def _derived(
    source: type[Source],
    made: type[Made],
    within: Collection[str],
    given: Collection[str],
    *,
    named: Mapping[str, str],
    computed: Mapping[str, Callable[[Source], object]],
) -> Derived[Source, Made]:
    names = _fields(made)
    if unknown := [name for name in (*named, *computed, *given) if name not in names]:
        raise TypeError(f"{made.__name__}: there is no {', '.join(unknown)}")
    for place in named.values():
        type_at(source, place)
    otherwise = {*named, *computed, *given}
    equal = {name: _place(source, name, within) for name in names if name not in otherwise}
    if missing := [name for name, place in equal.items() if not place]:
        raise TypeError(f"{made.__name__}: {', '.join(missing)}: {source.__name__} has no such field")
    return Derived(source, made, {**equal, **named}, computed)


def _place(source: type[Any], name: str, within: Iterable[str]) -> str:
    """Empty if there is no such attribute. A name that stands in two places is refused: `named` says which one counts."""
    own = [name] if hasattr(source, name) else []
    places = [*own, *(f"{inner}.{name}" for inner in within if hasattr(type_at(source, inner), name))]
    if len(places) > 1:
        raise TypeError(f"{source.__name__}: {' and '.join(places)}: say which one in `named`")
    return "".join(places)


def _fields(kind: type[Any]) -> tuple[str, ...]:
    if not issubclass(kind, Struct):
        raise TypeError(f"{kind.__name__} has no fields")
    return kind.__struct_fields__
