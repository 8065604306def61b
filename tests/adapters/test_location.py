"""The location of a network address, by a database in MaxMind's format that the test makes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.ip_addresses import LocationDatabaseUnusable, locations
from core.domain.identity.devices import Location
from tests.adapters.location_database import place, write_location_database
from tests.conftest import CapturedLog

PLACES: Final = {
    "192.0.2.0/24": place("DE", "Bonn"),
    "198.51.100.0/25": place("FR"),
    "203.0.113.7/32": place(None, "Atlantis"),
    "203.0.113.8/32": {"registered_country": {"iso_code": "it"}},
    "2001:db8::/32": place("SE", "Ume\N{LATIN SMALL LETTER A WITH RING ABOVE}"),
}


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.0.2.200", Location("DE", "Bonn")),
        ("198.51.100.1", Location("FR", None)),
        ("198.51.100.128", None),
        ("203.0.113.7", Location(None, "Atlantis")),
        ("203.0.113.8", Location("IT", None)),
        ("2001:db8::1", Location("SE", "Ume\N{LATIN SMALL LETTER A WITH RING ABOVE}")),
        ("2001:db8::1%eth0", Location("SE", "Ume\N{LATIN SMALL LETTER A WITH RING ABOVE}")),
        ("10.0.0.1", None),
        ("unknown", None),
        ("", None),
        (None, None),
    ],
)
async def test_an_address_is_where_the_database_says(tmp_path: Path, address: str | None, found: Location | None) -> None:
    with locations(write_location_database(tmp_path / "city.mmdb", PLACES)) as places:
        assert await places.find(address) == found
        assert await places.find(address) == found


async def test_without_a_database_nothing_is_known() -> None:
    with locations(None) as places:
        assert await places.find("192.0.2.1") is None


async def test_a_database_of_ipv4_alone_knows_no_other_address(tmp_path: Path, log: CapturedLog) -> None:
    with locations(write_location_database(tmp_path / "city.mmdb", {"192.0.2.0/24": place("DE")}, version=4)) as places:
        assert await places.find("192.0.2.1") == Location("DE", None)
        assert await places.find("2001:db8::1") is None
    assert log.entries == []


@pytest.mark.parametrize(
    "record",
    [
        "text",
        {},
        {"country": "DE", "city": ["Bonn"]},
        {"country": {"iso_code": ""}, "city": {"names": {"en": {}}}},
        {"country": {"iso_code": "Germany"}},
    ],
)
async def test_a_record_of_another_shape_tells_nothing(tmp_path: Path, record: Any) -> None:
    with locations(write_location_database(tmp_path / "odd.mmdb", {"192.0.2.0/24": record})) as places:
        assert await places.find("192.0.2.1") is None


@pytest.mark.parametrize(
    ("location", "spot"),
    [
        ({"latitude": 50.7374, "longitude": 7.0982}, (507, 71)),
        ({"latitude": -33.0, "longitude": -70.66}, (-330, -707)),
        ({"latitude": 50.7}, None),
        ({"latitude": "north", "longitude": 7.1}, None),
        ({"latitude": 91.0, "longitude": 7.1}, None),
        ({"latitude": 50.7, "longitude": 181.0}, None),
        ({"latitude": float("nan"), "longitude": 7.1}, None),
        ({"latitude": 50.7, "longitude": float("nan")}, None),
        ("Bonn", None),
    ],
)
async def test_coordinates_are_read_to_a_tenth_of_a_degree(tmp_path: Path, location: Any, spot: Any) -> None:
    record = {**place("DE", "Bonn"), "location": location}
    with locations(write_location_database(tmp_path / "city.mmdb", {"192.0.2.0/24": record})) as places:
        assert await places.find("192.0.2.1") == Location("DE", "Bonn", spot)


async def test_a_city_with_a_name_without_end_is_cut(tmp_path: Path) -> None:
    with locations(write_location_database(tmp_path / "city.mmdb", {"192.0.2.0/24": place("DE", "x" * 500)})) as places:
        assert await places.find("192.0.2.1") == Location("DE", "x" * 100)


async def test_a_spoilt_part_of_the_file_costs_the_place_and_not_the_sign_in(tmp_path: Path, log: CapturedLog) -> None:
    file = write_location_database(tmp_path / "city.mmdb", PLACES)
    content = file.read_bytes()
    file.write_bytes(content.replace(b"Bonn", b"\xff\xff\xff\xff"))
    with locations(file) as places:
        assert await places.find("192.0.2.1") is None
        assert await places.find("198.51.100.1") == Location("FR", None)
    assert log.events("location_database_damaged")


def _nothing_there(file: Path) -> None:
    assert not file.exists()


def _text(file: Path) -> None:
    file.write_text("Bonn")


def _empty(file: Path) -> None:
    file.touch()


def _directory(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize("make", [_nothing_there, _text, _empty, _directory])
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "city.mmdb")
    with pytest.raises(LocationDatabaseUnusable, match=r"\w+ \w+"), locations(tmp_path / "city.mmdb"):
        pass


def test_the_database_of_the_tests_is_read_as_it_was_written(tmp_path: Path) -> None:
    maxminddb = pytest.importorskip("maxminddb")
    with maxminddb.open_database(write_location_database(tmp_path / "city.mmdb", PLACES)) as reader:
        read: Mapping[str, Any] = {str(network): record for network, record in reader}
    assert read["192.0.2.0/24"] == PLACES["192.0.2.0/24"]
    assert len(read) == len(PLACES)
