"""Recognising devices, scoring risk, granting trust, and the names that people give."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.identifiers import DeviceId, UserId
from core.domain.identity.devices import (
    Client,
    Device,
    DeviceType,
    Location,
    UserAgent,
    device_name,
    device_renamed,
    device_revoked,
    trust_period,
)
from core.domain.identity.risk import (
    DEMANDS_MORE,
    HISTORY,
    LEAST_HISTORY,
    NOTHING_KNOWN,
    Approach,
    Circumstances,
    Knowledge,
    KnownDevice,
    Recognition,
    RiskFactor,
    assess,
    judge,
)
from core.domain.record.events import Actor
from core.frozen import replace

NOW: Final = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
ONE, OTHER = (DeviceId(UUID(f"0199d3a0-0000-7000-8000-00000000000{number}")) for number in range(2))
USER: Final = UserId(UUID("0199d3a0-0000-7000-8000-000000000009"))
CHROME: Final = UserAgent(DeviceType.BROWSER, "Chrome", "131.0.0", "Windows", "10")
APPROACH: Final = Approach(Client("192.0.2.1", "Mozilla/5.0"), CHROME)
USUAL: Final = Circumstances(known_device=True, known_location=True, usual_hour=True, through_proxy=False, failed_attempts=0)
DEVICE: Final = Device(ONE, USER, "Chrome on Windows", CHROME, NOW, "192.0.2.1", None, 0.3, None, NOW, NOW)

circumstances = st.builds(
    Circumstances,
    known_device=st.booleans(),
    known_location=st.none() | st.booleans(),
    usual_hour=st.none() | st.booleans(),
    through_proxy=st.none() | st.booleans(),
    failed_attempts=st.integers(0, 30),
)


@pytest.mark.parametrize(
    ("change", "score", "factors"),
    [
        ({}, 0.0, ()),
        ({"known_device": False}, 0.3, (RiskFactor.NEW_DEVICE,)),
        ({"known_location": False}, 0.2, (RiskFactor.UNKNOWN_LOCATION,)),
        ({"usual_hour": False}, 0.1, (RiskFactor.UNUSUAL_TIME,)),
        ({"through_proxy": True}, 0.1, (RiskFactor.PROXY,)),
        ({"failed_attempts": 1}, 0.2, (RiskFactor.FAILED_ATTEMPTS,)),
        ({"failed_attempts": 3}, 0.6, (RiskFactor.FAILED_ATTEMPTS,)),
        ({"failed_attempts": 50}, 1.0, (RiskFactor.FAILED_ATTEMPTS,)),
        ({"known_location": None, "usual_hour": None, "through_proxy": None}, 0.0, ()),
    ],
)
def test_each_contribution_counts_as_the_interface_says(change: dict[str, object], score: float, factors: tuple[RiskFactor, ...]) -> None:
    risk = assess(replace(USUAL, **change))  # type: ignore[arg-type]  # of the fields' types, each
    assert (risk.score, risk.factors) == (score, factors)


def test_everything_unusual_at_once_is_exactly_the_limit_and_one_failed_attempt_more_is_above_it() -> None:
    unusual = Circumstances(known_device=False, known_location=False, usual_hour=False, through_proxy=True, failed_attempts=0)
    assert assess(unusual).score == DEMANDS_MORE
    assert not assess(unusual).demands_more
    assert assess(replace(unusual, failed_attempts=1)).demands_more
    assert not assess(replace(USUAL, usual_hour=False, failed_attempts=3)).demands_more


@given(circumstances)
def test_the_score_lies_between_nothing_and_one_and_has_a_reason(found: Circumstances) -> None:
    risk = assess(found)
    assert 0 <= risk.score <= 1
    assert (risk.score == 0) == (not risk.factors)
    assert len(set(risk.factors)) == len(risk.factors)


@given(circumstances)
def test_no_circumstance_gets_less_risky_by_being_more_unusual(found: Circumstances) -> None:
    score = assess(found).score
    worse = [
        replace(found, known_device=False),
        replace(found, known_location=False),
        replace(found, usual_hour=False),
        replace(found, through_proxy=True),
        replace(found, failed_attempts=found.failed_attempts + 1),
    ]
    assert all(assess(one).score >= score for one in worse)


@given(circumstances)
def test_what_is_not_known_counts_like_what_is_usual(found: Circumstances) -> None:
    unknown = replace(found, known_location=None, usual_hour=None, through_proxy=None)
    assert assess(unknown).score == assess(replace(found, known_location=True, usual_hour=True, through_proxy=False)).score


def test_a_stranger_comes_with_a_new_device() -> None:
    sighting = judge(APPROACH, NOTHING_KNOWN, NOW)
    assert (sighting.recognition, sighting.device, sighting.needs_token) == (Recognition.NEW, None, True)
    assert not sighting.is_proven
    assert not sighting.may_skip_second_factor
    assert sighting.risk.factors == (RiskFactor.NEW_DEVICE,)


def test_a_device_that_brings_its_token_is_known_even_when_others_look_alike() -> None:
    sighting = judge(APPROACH, Knowledge(by_token=KnownDevice(ONE), by_agent=KnownDevice(OTHER)), NOW)
    assert (sighting.recognition, sighting.device, sighting.needs_token) == (Recognition.TOKEN, ONE, False)
    assert sighting.is_proven
    assert not sighting.trusted
    assert sighting.risk.score == 0


def test_a_look_alike_is_known_but_neither_proven_nor_trusted() -> None:
    sighting = judge(APPROACH, Knowledge(by_agent=KnownDevice(ONE, NOW + timedelta(days=1), brings_trust=True)), NOW)
    assert (sighting.recognition, sighting.device) == (Recognition.AGENT, ONE)
    assert not sighting.is_proven
    assert not sighting.trusted
    assert sighting.risk.score == 0


def test_a_look_alike_gets_a_token_unless_a_trusted_device_would_lose_its_own() -> None:
    for until, needs_token in ((None, True), (NOW, True), (NOW + timedelta(seconds=1), False)):
        assert judge(APPROACH, Knowledge(by_agent=KnownDevice(ONE, until)), NOW).needs_token is needs_token


@pytest.mark.parametrize(
    ("until", "brings_trust", "trusted"),
    [
        (NOW + timedelta(seconds=1), True, True),
        (NOW + timedelta(seconds=1), False, False),
        (NOW, True, False),
        (None, True, False),
    ],
)
def test_trust_needs_the_devices_token_and_the_trust_token_and_its_time(until: datetime | None, brings_trust: bool, trusted: bool) -> None:
    sighting = judge(APPROACH, Knowledge(by_token=KnownDevice(ONE, until, brings_trust)), NOW)
    assert sighting.trusted is trusted
    assert sighting.may_skip_second_factor is trusted


def test_a_trusted_device_skips_nothing_when_too_much_is_unusual() -> None:
    known = Knowledge(by_token=KnownDevice(ONE, NOW + timedelta(days=1), brings_trust=True), failed_attempts=4)
    sighting = judge(APPROACH, known, NOW)
    assert sighting.trusted
    assert not sighting.may_skip_second_factor


@pytest.mark.parametrize(
    ("here", "before", "unknown"),
    [
        ("DE", {"DE"}, False),
        ("DE", {"FR", "IT"}, True),
        ("DE", set(), False),
        (None, {"FR"}, False),
    ],
)
def test_a_country_is_unknown_when_the_person_was_somewhere_else_before(here: str | None, before: set[str], unknown: bool) -> None:
    for location in [Location(here, "Bonn")] if here else [None, Location(None, "Bonn")]:
        sighting = judge(replace(APPROACH, location=location), Knowledge(countries=frozenset(before)), NOW)
        assert (RiskFactor.UNKNOWN_LOCATION in sighting.risk.factors) is unknown


@pytest.mark.parametrize(
    ("hour", "before", "sign_ins", "unusual"),
    [
        (12, {12}, LEAST_HISTORY, False),
        (12, {10}, LEAST_HISTORY, False),
        (12, {14}, LEAST_HISTORY, False),
        (12, {9, 15}, LEAST_HISTORY, True),
        (12, {9, 15}, LEAST_HISTORY - 1, False),
        (0, {22}, HISTORY, False),
        (23, {1}, HISTORY, False),
        (23, {2}, HISTORY, True),
        (3, set(range(8, 18)), HISTORY, True),
    ],
)
def test_an_hour_is_unusual_when_no_sign_in_fell_within_two_of_it(hour: int, before: set[int], sign_ins: int, unusual: bool) -> None:
    known = Knowledge(sign_ins=sign_ins, hours=frozenset(before))
    sighting = judge(APPROACH, known, NOW.replace(hour=hour))
    assert (RiskFactor.UNUSUAL_TIME in sighting.risk.factors) is unusual


@given(st.integers(0, 23), st.frozensets(st.integers(0, 23)), st.integers(0, 23))
def test_the_clock_has_no_beginning(hour: int, before: frozenset[int], turn: int) -> None:
    def factors(hour: int, hours: frozenset[int]) -> tuple[RiskFactor, ...]:
        return judge(APPROACH, Knowledge(sign_ins=HISTORY, hours=hours), NOW.replace(hour=hour)).risk.factors

    assert factors(hour, before) == factors((hour + turn) % 24, frozenset((one + turn) % 24 for one in before))


def test_hours_are_those_of_utc() -> None:
    known = Knowledge(sign_ins=HISTORY, hours=frozenset({12}))
    there = NOW.astimezone(timezone(timedelta(hours=11)))
    assert judge(APPROACH, known, there).risk.score == judge(APPROACH, known, NOW).risk.score


@pytest.mark.parametrize(("days", "granted"), [(None, 30), (7, 7), (90, 90), (365, 90), (0, 0), (-1, 0)])
def test_trust_lasts_as_the_organization_says_and_at_most_ninety_days(days: int | None, granted: int) -> None:
    assert trust_period(days) == timedelta(days=granted)


def test_a_device_is_trusted_until_its_time() -> None:
    assert not DEVICE.is_trusted(NOW)
    trusted = replace(DEVICE, trusted_until=NOW)
    assert trusted.is_trusted(NOW - timedelta(seconds=1))
    assert not trusted.is_trusted(NOW)


@pytest.mark.parametrize(
    ("browser", "system", "name"),
    [
        ("Chrome", "Windows", "Chrome on Windows"),
        ("curl", None, "curl"),
        (None, "Windows", "Windows"),
        ("Android", "Android", "Android"),
        (None, None, "Unknown device"),
        ("", "", "Unknown device"),
    ],
)
def test_a_device_is_named_after_its_software(browser: str | None, system: str | None, name: str) -> None:
    assert UserAgent(DeviceType.CLI, browser, None, system, None).name == name


KEPT: Final = ["  Ada's laptop\t", "x" * 100, "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}", "<b>'; --", "%_\\"]


@pytest.mark.parametrize("given_name", KEPT)
def test_a_name_is_kept_as_given_without_the_space_around_it(given_name: str) -> None:
    assert device_name(given_name) == given_name.strip()


@pytest.mark.parametrize("given_name", ["", " \t\n", "x" * 101, "a\0b", "a\nb", "a\x7fb", "a\u2028b", "a\u202eb", "a\u2066b", "a\ud800b"])
def test_a_name_that_would_upset_a_page_or_a_line_is_refused(given_name: str) -> None:
    with pytest.raises(BadRequest, match="name"):
        device_name(given_name)


def test_the_events_are_about_the_person_and_name_the_device() -> None:
    actor = Actor(USER, UserId(OTHER))
    renamed, revoked = device_renamed(DEVICE, "Mine", actor), device_revoked(DEVICE, 2, actor)
    assert [(one.name, one.target.type, one.target.id, one.actor) for one in (renamed, revoked)] == [
        ("user.device.renamed", "user", str(USER), actor),
        ("user.device.revoked", "user", str(USER), actor),
    ]
    assert renamed.details == {"device_id": str(ONE)}
    assert renamed.personal == {"old_name": "Chrome on Windows", "name": "Mine"}
    assert revoked.details == {"device_id": str(ONE), "sessions": 2}
    assert revoked.personal == {"name": "Chrome on Windows"}


def test_the_actor_of_a_client_has_a_user_agent_of_bounded_length() -> None:
    assert Client("192.0.2.1", "x" * 600).actor(USER) == Actor(USER, None, "192.0.2.1", "x" * 512)
    assert Client(None, "").actor() == Actor()
