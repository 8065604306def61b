"""Use cases are put together by the names of their fields, and each has what its field declares."""

import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NewType, TypeVar, get_args, get_origin, get_type_hints

import pytest

from core.frozen import Frozen, names_of
from entrypoints import bootstrap
from entrypoints.assembly.by_name import MemberName, PartsByName, assembled
from entrypoints.settings import read
from tests.conftest import CapturedLog

KEY: Final = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def fits(value: object, declared: Any) -> bool:
    """For a protocol, whether the value has all that it names."""
    origin = get_origin(declared)
    if origin in {typing.Union, UnionType}:
        return any(fits(value, one) for one in get_args(declared))
    if declared is None or declared is NoneType:
        return value is None
    if isinstance(declared, NewType):
        return fits(value, declared.__supertype__)
    kind = origin or declared
    if isinstance(kind, TypeVar) or not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        named = {
            name
            for one in kind.__mro__
            if getattr(one, "_is_protocol", False)
            for name in {*vars(one), *vars(one).get("__annotations__", ())}
        }
        return all(hasattr(value, name) for name in named if not name.startswith("_"))
    return isinstance(value, kind)


def misfits(area: Frozen) -> Iterator[str]:
    """Of the area, of its members, and of what these are put together from."""
    waiting, seen = [(type(area).__name__, area)], set[int]()
    while waiting:
        place, whole = waiting.pop(0)
        if id(whole) in seen:
            continue
        seen.add(id(whole))
        hints = get_type_hints(type(whole))
        for name in names_of(whole):
            if not fits(part := getattr(whole, name), hints[name]):
                yield f"{place}.{name} is {type(part).__name__}, and declared as {hints[name]}"
            if isinstance(part, Frozen):
                waiting.append((f"{place}.{name}", part))


async def test_each_use_case_has_what_its_fields_declare(tmp_path: Path, log: CapturedLog) -> None:
    settings = read(
        {
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_DATABASE_URL": "postgresql://me@127.0.0.1:1/none",
            "POSTERN_ENCRYPTION_KEYS": KEY,
        }
    )
    async with bootstrap.open_postern(settings) as postern:
        areas = (
            postern.foundation,
            postern.record,
            postern.identity,
            postern.tenancy,
            postern.services,
            postern.federation,
            postern.platform,
        )
        assert [told for area in areas for told in misfits(area)] == []
    assert log.events("database_away")


class Larder(Frozen):
    lookup: str
    colour: str


class Shutters(Frozen):
    larder: Larder
    tests: Larder


class Cottage(Frozen):
    shutters: Shutters
    larder: Larder


class CottageStores:
    larder = "the store of larder"


def cottage(shared: PartsByName, own: Mapping[str, PartsByName], also_called: Mapping[str, str], **made: object) -> Cottage:
    return assembled(Cottage, CottageStores(), shared, own, made=made, also_called=also_called)


def test_parts_are_found_by_their_names() -> None:
    found = cottage({"colour": "red"}, {}, {"tests": "larder"})
    assert found.larder == Larder("the store of larder", "red")
    assert found.shutters.larder is found.shutters.tests is found.larder
    assert cottage({"colour": "red"}, {"larder": {"lookup": "mine", "colour": "blue"}}, {"tests": "larder"}).larder == Larder(
        "mine", "blue"
    )
    meant = cottage({"colour": "red"}, {"shutters": {"tests": MemberName("larder")}}, {})
    assert meant.shutters.tests is meant.larder
    made = Larder("", "")
    assert cottage({}, {}, {"tests": "larder"}, larder=made).shutters.larder is made


@pytest.mark.parametrize(
    ("own", "also_called", "told"),
    [
        ({}, {"tests": "larder"}, r"Cottage\.larder: nothing is named as its `colour`"),
        ({"shutters": {}}, {}, r"Cottage\.larder: nothing is named as its `colour`"),
        ({"larder": {"colour": "red"}}, {}, r"Cottage\.shutters: nothing is named as its `tests`"),
        ({"roofs": {}}, {"tests": "larder"}, "Cottage has no roofs"),
        ({}, {"tests": "roofs"}, "Cottage has no roofs"),
        ({"shutters": {"tests": MemberName("roofs")}}, {}, "Cottage has no roofs"),
    ],
)
def test_a_part_that_nobody_names_stops_the_start(own: Mapping[str, PartsByName], also_called: Mapping[str, str], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        cottage({}, own, also_called)
