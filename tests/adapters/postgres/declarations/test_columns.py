"""A field is said once: what its column has to do with it follows from the declaration."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NewType, get_type_hints
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

import adapters.postgres
from adapters.postgres import columns
from adapters.postgres.columns import Columns, page_of
from adapters.postgres.driver.connection import Connection
from core.domain.formats import Json
from core.domain.requests import Listed
from core.frozen import SHARED, Frozen, replace, shared
from tests.http.machinery.test_derived import can_hold

PlanetId = NewType("PlanetId", UUID)
ID = PlanetId(UUID(int=1))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class PlanetKind(StrEnum):
    ROCK = "rock"
    GAS = "gas"


class Star:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Star) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Planet(Frozen, kw_only=True):
    id: PlanetId
    star: Star
    name: str
    kind: PlanetKind
    before: PlanetKind | None
    moons: Sequence[str]
    kinds: tuple[PlanetKind, ...] | None
    letters: frozenset[str]
    facts: Mapping[str, Json] | None
    seen_at: datetime | None
    rings: int = 0


class Comet(Frozen):
    name: bytes


class Moon(Frozen, kw_only=True):
    id: PlanetId
    planet: PlanetId
    names: tuple[str, ...]
    seen_at: datetime | None
    kind: PlanetKind


PLANET = Planet(
    id=ID,
    star=Star("sol"),
    name="Sat\0urn",
    kind=PlanetKind.GAS,
    before=None,
    moons=("Rhea",),
    kinds=(PlanetKind.ROCK, PlanetKind.GAS),
    letters=frozenset("S"),
    facts={"note": "\0"},
    seen_at=NOW,
)


@pytest.fixture(autouse=True)
def undeclared() -> Any:
    """Tests declare things that have no table."""
    kept = list(columns.ALL)
    yield
    columns.ALL[:] = kept


def planets(**said: Any) -> Columns[Planet]:
    given: dict[str, Any] = {
        "named": {"star": "star_name"},
        "apart": ("rings",),
        "texts": ("name",),
        "turned": {"star": (Star, lambda star: star.name)},
    }
    return Columns(Planet, "planets", **{**given, **said})


def test_values_are_what_the_table_keeps() -> None:
    values = planets().values(PLANET)
    facts = values.pop("facts")
    assert isinstance(facts, Jsonb)
    assert facts.obj == {"note": "\ufffd"}
    assert values == {
        "id": ID,
        "star": "sol",
        "name": "Sat\ufffdurn",
        "kind": "gas",
        "before": None,
        "moons": ["Rhea"],
        "kinds": ["rock", "gas"],
        "letters": ["S"],
        "seen_at": NOW,
    }


@pytest.mark.parametrize("prefix", ["", "planet_"])
def test_a_row_makes_the_thing_and_leaves_the_rest(prefix: str) -> None:
    declared = planets(prefix=prefix)
    kept = {**declared.values(PLANET), "facts": {"note": "x"}, "name": "Saturn"}
    row = {f"{prefix}{name}": value for name, value in kept.items()} | {"count": 3}
    found = declared.taken(row)
    assert (found.name, found.kind, found.kinds, found.star, found.moons) == (
        "Saturn",
        PlanetKind.GAS,
        (PlanetKind.ROCK, PlanetKind.GAS),
        Star("sol"),
        ("Rhea",),
    )
    assert (found.letters, found.before, found.rings, found.facts) == (frozenset("S"), None, 0, {"note": "x"})
    assert row == {"count": 3}


def test_texts_of_a_list_are_made_storable() -> None:
    assert planets(texts=("moons",)).values(replace(PLANET, moons=("Rh\0ea",)))["moons"] == ["Rh\ufffdea"]


def test_an_empty_text_is_null_in_the_table() -> None:
    declared = planets(empties=("name",))
    kept = declared.values(replace(PLANET, name=""))
    assert kept["name"] is None
    assert declared.row(**{**kept, "facts": None}).name == ""


def test_columns_that_are_not_declared_are_fields_apart() -> None:
    declared = planets()
    kept = {**declared.values(PLANET), "facts": {"note": "x"}}
    assert declared.row(**kept, rings=7).rings == 7
    with pytest.raises(TypeError, match="colour"):
        declared.row(**kept, colour="red")


def test_a_row_that_came_as_json_is_the_same_thing() -> None:
    declared = Columns(Moon, "moons", named={"planet": "planet_id"}, apart=("kind",))
    kept = {"id": str(ID), "planet_id": str(ID), "names": ["Rhea"], "seen_at": NOW.isoformat(), "kind": "?", "sealed": "x"}
    assert declared.of_json(kept, kind="rock") == Moon(id=ID, planet=ID, names=("Rhea",), seen_at=NOW, kind=PlanetKind.ROCK)


def test_a_row_of_nulls_is_nothing() -> None:
    declared = planets()
    kept = {**declared.values(PLANET), "facts": {"note": "x"}}
    nulls = dict.fromkeys(kept)
    assert declared.found(**nulls) is None
    assert declared.found(**kept) == declared.row(**kept)
    assert page_of([declared.counted(total=0, **nulls)]) == Listed([], 0)
    assert page_of([declared.counted(total=9, **kept)]) == Listed([declared.row(**kept)], 9)
    assert page_of([]) == Listed([], 0)


def test_statements_name_each_column_once() -> None:
    declared = Columns(
        Planet,
        "planets",
        named={"star": "star_name"},
        apart=("kind", "before", "moons", "kinds", "letters", "facts", "seen_at"),
        turned={"star": (Star, lambda star: star.name)},
        prefix="p_",
    )
    assert declared.names == "planets.id as p_id, planets.star_name as p_star, planets.name as p_name, planets.rings as p_rings"
    assert declared.names_in("old").startswith("old.id as p_id, ")
    assert declared.into("sealed") == "id, star_name, name, rings, sealed"
    assert declared.inserted("sealed") == "%(id)s, %(star)s, %(name)s, %(rings)s, %(sealed)s"
    assert declared.changes("id", "rings") == "star_name = %(star)s, name = %(name)s"
    assert declared.replaced("id", "name") == "star_name = excluded.star_name, rings = excluded.rings"
    # Fields that another class shares: those that are no columns are left out.
    assert declared.sets(("star", "name", "kind")) == "star_name = %(star)s, name = %(name)s"
    assert declared.document(("star", "name", "kind")) == "'star', planets.star_name, 'name', planets.name"
    for assignments in (declared.changes, declared.replaced):
        with pytest.raises(TypeError, match="Planet: there is no colour"):
            assignments("colour")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"named": {"colour": "color"}}, "Planet: there is no colour"),
        ({"texts": ("title",)}, "Planet: there is no title"),
        ({"empties": ("title",)}, "Planet: there is no title"),
        ({"texts": ("kind",)}, r"Planet\.kind: say in `turned`"),
        ({"texts": ("kinds",)}, r"Planet\.kinds: say in `turned`"),
        ({"texts": ("facts",)}, r"Planet\.facts: say in `turned`"),
        ({"turned": {}}, r"Planet\.star: say in `turned` how"),
        ({"named": {"star": "name; drop"}}, "Planet: no identifier: name; drop"),
        ({"prefix": "Planet "}, "Planet: no identifier: Planet id"),
    ],
)
def test_a_declaration_that_leads_nowhere_stops_the_import(said: Mapping[str, Any], fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        planets(**said)


def test_a_field_that_two_classes_have_is_taken_unless_the_caller_converts_it() -> None:
    moon = Moon(id=ID, planet=ID, names=("Rhea",), seen_at=NOW, kind=PlanetKind.ROCK)
    assert shared(Moon, Planet, "kind")(moon) == {"id": ID, "seen_at": NOW}
    assert unfit(Moon, Planet, ["kind"]) == []
    with pytest.raises(TypeError, match="Moon and Planet do not share star"):
        shared(Moon, Planet, "star")
    assert unfit(Comet, Planet, ["name"]) == ["Planet.name"]


def test_every_shared_field_has_the_same_type_in_both_classes() -> None:
    for module in pkgutil.walk_packages(adapters.postgres.__path__, "adapters.postgres."):
        importlib.import_module(module.name)
    declared = [one for one in SHARED if not one[0].__module__.startswith("tests.")]
    assert declared
    assert [field for one in declared for field in unfit(*one)] == []


def unfit(source: type[Frozen], made: type[Frozen], names: Sequence[str]) -> Sequence[str]:
    given, wanted = get_type_hints(source), get_type_hints(made)
    return [f"{made.__name__}.{name}" for name in names if not can_hold(wanted[name], given[name])]


async def test_every_declared_column_is_in_its_table(database_url: str) -> None:
    for module in pkgutil.walk_packages(adapters.postgres.__path__, "adapters.postgres."):
        importlib.import_module(module.name)
    assert columns.ALL
    async with await Connection.connect(database_url) as connection:
        for declared in columns.ALL:
            found = await connection.execute(
                "select attname::text from pg_attribute where attrelid = to_regclass(%(table)s) and attnum > 0", {"table": declared.table}
            )
            there = {name for (name,) in await found.fetchall()}
            assert set(declared.columns.values()) <= there, (declared.thing, set(declared.columns.values()) - there)
