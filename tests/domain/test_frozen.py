"""Frozen objects behave as frozen dataclasses do."""

import copy
import pickle
from typing import Any, Generic, TypeVar

import pytest

from core.frozen import Frozen, field, names_of, replace

T = TypeVar("T")


class Place(Frozen):
    name: str
    height: int = 0
    tags: list[str] = field(default_factory=list)


class Hill(Place, kw_only=True):
    steep: bool

    def __post_init__(self) -> None:
        if self.height < 0:
            raise ValueError("a hill is no hole")


class Other(Frozen):
    name: str
    height: int = 0
    tags: list[str] = field(default_factory=list)


class Box(Frozen, Generic[T]):
    content: T


def test_nothing_changes_it() -> None:
    place: Any = Place("Ben Nevis")
    with pytest.raises(AttributeError, match="immutable type: 'Place'"):
        place.height = 1345
    with pytest.raises(AttributeError):
        place.colour = "green"
    with pytest.raises(AttributeError):
        del place.name
    assert not hasattr(place, "__dict__")


def test_two_of_a_class_with_equal_fields_are_equal_and_nothing_else_is() -> None:
    assert Box((1, 2)) == Box((1, 2))
    assert hash(Box((1, 2))) == hash(Box((1, 2)))
    assert Box(1) != Box(2)
    other: Any = Other("here")
    assert Place("here") != other
    assert Hill("here", steep=True) != Place("here")


def test_a_default_that_can_change_is_each_ones_own() -> None:
    Place("here").tags.append("far")
    assert Place("there").tags == []


def test_another_is_made_from_it_under_the_same_conditions() -> None:
    hill = Hill("here", 7, steep=False)
    assert replace(hill, steep=True) == Hill("here", 7, steep=True)
    assert not hill.steep
    with pytest.raises(ValueError, match="no hole"):
        replace(hill, height=-1)
    with pytest.raises(TypeError):
        replace(hill, colour="green")  # type: ignore[call-arg]


def test_its_fields_are_known_by_name() -> None:
    assert names_of(Hill) == names_of(Hill("here", steep=True)) == ("name", "height", "tags", "steep")


def test_it_shows_what_it_holds() -> None:
    assert repr(Box("here")) == "Box(content='here')"


def test_it_can_be_copied_and_sent() -> None:
    hill = Hill("here", steep=True)
    assert copy.deepcopy(hill) == hill
    assert pickle.loads(pickle.dumps(hill)) == hill  # noqa: S301 - ours
