"""Use cases are put together by the names of their fields, and each has what its field declares."""

import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NewType, TypeVar, get_args, get_origin, get_type_hints

import pytest

from core.frozen import Frozen, names_of
from entrypoints import bootstrap
from entrypoints.assembly.by_name import Parts, assembled
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


def misfits(family: Frozen) -> Iterator[str]:
    for name in names_of(family):
        member = getattr(family, name)
        if isinstance(member, Frozen):
            hints = get_type_hints(type(member))
            for part in names_of(member):
                if not fits(value := getattr(member, part), hints[part]):
                    yield f"{type(family).__name__}.{name}.{part} is {type(value).__name__}, and declared as {hints[part]}"


async def test_each_use_case_has_what_its_fields_declare(tmp_path: Path, log: CapturedLog) -> None:
    settings = read(
        {
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_DATABASE_URL": "postgresql://me@127.0.0.1:1/none",
            "POSTERN_ENCRYPTION_KEYS": KEY,
        }
    )
    async with bootstrap.open_postern(settings) as postern:
        families = (postern.record, postern.identity, postern.tenancy, postern.services, postern.federation, postern.platform)
        assert [told for family in families for told in misfits(family)] == []
    assert log.events("database_away")


class Doors(Frozen):
    lookup: str
    colour: str


class Windows(Frozen):
    doors: Doors
    tests: Doors


class House(Frozen):
    windows: Windows
    doors: Doors


class Stores:
    doors = "the store of doors"


def house(shared: Parts, own: Mapping[str, Parts], also_called: Mapping[str, str], **made: object) -> House:
    return assembled(House, Stores(), shared, own, made=made, also_called=also_called)


def test_parts_are_found_by_their_names() -> None:
    found = house({"colour": "red"}, {}, {"tests": "doors"})
    assert found.doors == Doors("the store of doors", "red")
    assert found.windows.doors is found.windows.tests is found.doors
    assert house({"colour": "red"}, {"doors": {"lookup": "mine", "colour": "blue"}}, {"tests": "doors"}).doors == Doors("mine", "blue")
    made = Doors("", "")
    assert house({}, {}, {"tests": "doors"}, doors=made).windows.doors is made


@pytest.mark.parametrize(
    ("own", "also_called", "told"),
    [
        ({}, {"tests": "doors"}, r"House\.doors: nothing is named as its `colour`"),
        ({"windows": {}}, {}, r"House\.doors: nothing is named as its `colour`"),
        ({"doors": {"colour": "red"}}, {}, r"House\.windows: nothing is named as its `tests`"),
        ({"gates": {}}, {"tests": "doors"}, "House has no gates"),
        ({}, {"tests": "gates"}, "House has no gates"),
    ],
)
def test_a_part_that_nobody_names_stops_the_start(own: Mapping[str, Parts], also_called: Mapping[str, str], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        house({}, own, also_called)
