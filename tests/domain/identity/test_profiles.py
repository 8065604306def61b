"""Profiles: the texts that they take, the user names that are refused, and what a provider may fill."""

import re
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import UUID

import pytest

from adapters.system import is_time_zone
from core.domain.branding import READABLE, contrast
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.identity.profiles import (
    MOST_PIXELS,
    NO_CHANGE,
    NO_PROFILE,
    NOTHING_STATED,
    RESERVED_USERNAMES,
    SHADES,
    USERNAME_PATTERN,
    HeldProfile,
    OwnProfile,
    OwnProfileChange,
    Portrait,
    filled,
    picture_of,
    portrait,
    stated_profile,
    username,
    username_digest,
)
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import UNCHANGED
from core.frozen import replace
from tests.pictures import drawn_jpeg, segment

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "  Ada Lovelace ",
        "\u05d0\u05d3\u05d4",
        "x" * 200,
        "Ada \u2067\u05d0\u05d3\u05d4\u2069 L.",
        "Zoë \u200d",
        "\u202bab\u202acd\u202c\u202c",
    ],
)
def test_a_name_that_a_person_may_have(name: str) -> None:
    assert OwnProfileChange(name=name).checked(is_time_zone).name == name.strip()


@pytest.mark.parametrize(
    "name",
    ["", "   ", "\u200b", "x" * 201, "a\nb", "a\0b", "a\x7fb", "a\u2028b", "a\u202eb", "a\u2066b", "a\u2069b", "\u2066a\u202c", "a\ud800b"],
)
@pytest.mark.parametrize("field", ["name", "given_name", "family_name"])
def test_a_name_that_would_change_the_text_around_it_is_refused(field: str, name: str) -> None:
    given: Any = {field: name}
    with pytest.raises(BadRequest, match=f"^{field}: "):
        replace(NO_CHANGE, **given).checked(is_time_zone)


@pytest.mark.parametrize("zone", ["Europe/Vienna", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+12"])
def test_a_zone_of_the_database(zone: str) -> None:
    assert OwnProfileChange(zoneinfo=zone).checked(is_time_zone).zoneinfo == zone


@pytest.mark.parametrize(
    "zone",
    ["", "Europe", "Europe/", "europe/vienna", "../etc/passwd", "Europe/../UTC", "posix/UTC", "localtime", "Factory", "Mars/X", "A" * 65],
)
def test_a_zone_that_is_none(zone: str) -> None:
    with pytest.raises(BadRequest, match="IANA"):
        OwnProfileChange(zoneinfo=zone).checked(is_time_zone)


@pytest.mark.parametrize("name", ["ada", "a1b", "ada.love-lace_1", "x" * 40, "007"])
def test_a_user_name(name: str) -> None:
    assert username(name) == name


@pytest.mark.parametrize("name", ["", "ab", "x" * 41, "Ada", "ada lovelace", ".ada", "ada-", "ada@b", "a/b", "adä", "ada\n1", "\u0430da"])
def test_a_user_name_that_applications_could_not_use(name: str) -> None:
    with pytest.raises(BadRequest, match="3 to 40"):
        username(name)


def test_reserved_user_names_are_ones_that_the_pattern_would_let_in() -> None:
    for name in RESERVED_USERNAMES:
        with pytest.raises(BadRequest, match="reserved"):
            username(name)
    assert USERNAME_PATTERN.startswith("^")
    assert {"admin", "root", "postmaster", "postern", "api"} <= RESERVED_USERNAMES


def test_the_digest_of_a_user_name_needs_the_key() -> None:
    assert username_digest("ada", b"k" * 32) != username_digest("ada", b"l" * 32)


def test_a_change_names_what_differs_and_nothing_else() -> None:
    held = HeldProfile(OwnProfile(name="Ada", zoneinfo="UTC"), Language.GERMAN)
    same = OwnProfileChange(name="Ada", language=Language.GERMAN, username=None)
    assert same.applied(held, NOW) == (held, ())
    after, changed = OwnProfileChange(name=None, given_name="Ada", language=None).applied(held, NOW)
    assert changed == ["name", "given_name", "language"]
    assert after == HeldProfile(OwnProfile(given_name="Ada", zoneinfo="UTC", updated_at=NOW), None)


def test_a_provider_fills_what_is_empty() -> None:
    told = stated_profile({"name": "Ada L.", "given_name": "Ada", "locale": "de_AT", "zoneinfo": "Europe/Vienna"})
    change = filled(HeldProfile(NO_PROFILE, None), told, is_time_zone)
    assert (change.name, change.given_name, change.family_name) == ("Ada L.", "Ada", UNCHANGED)
    assert (change.language, change.zoneinfo, change.username) == (Language.GERMAN, "Europe/Vienna", UNCHANGED)


def test_a_provider_may_not_know_the_zones() -> None:
    assert filled(HeldProfile(NO_PROFILE, None), stated_profile({"zoneinfo": "Mars/Base"}), is_time_zone).is_empty


def test_a_provider_changes_nothing_that_stands() -> None:
    told = stated_profile({"name": "Eve", "family_name": "Evil", "locale": "fr", "zoneinfo": "UTC"})
    held = HeldProfile(OwnProfile(given_name="Ada", zoneinfo="Europe/Vienna"), Language.ENGLISH)
    assert filled(held, told, is_time_zone).is_empty


@pytest.mark.parametrize(
    "claims", [{}, {"name": 7}, {"name": "a\u202eb"}, {"name": "x" * 201}, {"name": ""}, {"locale": "tlh"}, {"locale": 1}, {"zoneinfo": []}]
)
def test_a_claim_that_is_no_value_is_left_out(claims: dict[str, object]) -> None:
    assert stated_profile(claims) == NOTHING_STATED


@pytest.mark.parametrize(
    ("profile", "initials"),
    [
        (OwnProfile(name="Ada Augusta Lovelace"), "AL"),
        (OwnProfile(given_name="ada", family_name="lovelace"), "AL"),
        (OwnProfile(name="\u05d0\u05d3\u05d4"), "\u05d0"),
        (OwnProfile(name="-"), ""),
        (NO_PROFILE, "B"),
    ],
)
def test_a_portrait_without_a_picture_has_initials_on_the_persons_colour(profile: OwnProfile, initials: str) -> None:
    user = UserId(UUID(int=19))
    assert portrait(user, profile, Email("byron@example.org")) == Portrait("", initials, 19 % SHADES)


def test_each_colour_is_in_the_stylesheet_and_white_is_readable_on_it() -> None:
    style = (files("entrypoints.http.pages.kit") / "look" / "tokens.css").read_text()
    colors = re.findall(r"--shade(\d): (#[0-9a-f]{6});", style)
    assert [int(number) for number, _ in colors] == [*range(SHADES)]
    assert all(contrast(color, "#ffffff") >= READABLE for _, color in colors)


def test_a_picture_cannot_hide_its_size() -> None:
    """A fill byte before the frame leads a reader astray who takes it for a marker: to a small frame inside of a comment."""
    small, begins = drawn_jpeg(width=4, height=4), drawn_jpeg(width=60_000, height=60_000)
    frame = begins[begins.index(b"\xff\xc0") : begins.index(b"\xff\xda")]
    head = b"\xff\xd8\xff" + frame
    padding = b"\0" * (2 + 2 + 0xC000 - len(head) - 4)
    hidden = small[small.index(b"\xff\xc0") :][:11]
    hostile = head + segment(0xFE, padding + hidden) + begins[begins.index(b"\xff\xdb") : begins.index(b"\xff\xc0")]
    hostile += begins[begins.index(b"\xff\xda") :]
    with pytest.raises(BadRequest, match=f"1 to {MOST_PIXELS} pixels"):
        picture_of(hostile)


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("Countess", "Ada", "Lovelace"), "Countess"),
        ((None, "Ada", "Lovelace"), "Ada Lovelace"),
        ((None, None, "Lovelace"), "Lovelace"),
        ((None, "Ada", None), "Ada"),
        ((None, None, None), None),
    ],
)
def test_the_name_that_others_see(parts: tuple[str | None, str | None, str | None], shown: str | None) -> None:
    name, given_name, family_name = parts
    assert OwnProfile(name=name, given_name=given_name, family_name=family_name).shown_name == shown
