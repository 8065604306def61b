from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

import pytest

from core.domain.identity.guards.puzzles import (
    LIFETIME,
    LONGEST_SOLUTION,
    PARTS,
    Puzzle,
    PuzzleChallenge,
    PuzzleDemand,
    PuzzlePurpose,
    hour_of_network,
    is_solved,
    part_bits,
)
from core.domain.identity.guards.traffic import Traffic
from core.frozen import replace
from tests.http.pages.solving import solve

NOW = datetime(2026, 11, 27, 5, tzinfo=UTC)
REGISTRATION = PuzzleDemand(PuzzlePurpose.REGISTRATION, busy=16)
CHALLENGE = PuzzleChallenge.made(UUID(int=7), REGISTRATION, "the form", NOW)


def test_a_demand_is_the_greater_of_traffic_and_what_somebody_asks_for() -> None:
    quiet = PuzzleDemand(PuzzlePurpose.LINK)
    assert quiet.bits == 0
    assert quiet.at_least(18).bits == 18
    assert quiet.at_least(18).at_least(10).bits == 18
    assert quiet.at_least(1).bits == 8
    assert quiet.at_least(99).bits == 22
    assert replace(quiet, busy=20).at_least(18).bits == 20
    assert quiet.at_least(18).nothing().bits == 0


def test_a_few_bits_less_than_the_traffic_asks_for_now_are_enough_but_none_less_than_somebody_asks_for() -> None:
    assert REGISTRATION.is_met_by(14)
    assert not REGISTRATION.is_met_by(13)
    assert not REGISTRATION.at_least(15).is_met_by(14)


def test_what_is_sealed_is_read_again() -> None:
    assert PuzzleChallenge.unpacked(CHALLENGE.packed()) == CHALLENGE
    with pytest.raises(ValueError, match="later"):
        PuzzleChallenge.unpacked(CHALLENGE.packed().replace(b"registration", b"later"))


def test_a_challenge_counts_for_its_purpose_its_form_its_minutes_and_its_bits() -> None:
    last = NOW + LIFETIME - timedelta(seconds=1)
    assert CHALLENGE.objection(REGISTRATION, "the form", last) == ""
    assert CHALLENGE.objection(PuzzleDemand(PuzzlePurpose.RESET, 16), "the form", last) == "purpose"
    assert CHALLENGE.objection(REGISTRATION, "another", last) == "flow"
    assert CHALLENGE.objection(REGISTRATION, "the form", NOW + LIFETIME) == "late"
    assert CHALLENGE.objection(REGISTRATION.at_least(20), "the form", last) == "bits"


def test_a_solution_has_a_number_for_each_part() -> None:
    solution = solve("challenge", 12)
    assert is_solved("challenge", 12, solution)
    assert not is_solved("another", 12, solution)
    assert not is_solved("challenge", 30, solution)
    assert is_solved("challenge", 2, "0.0.0.0.0.0.0.0")


@pytest.mark.parametrize(
    "solution",
    [
        "",
        "1",
        ".".join("0" * (PARTS + 1)),
        "0.0.0.0.0.0.0.",
        "-1.0.0.0.0.0.0.0",
        "٣.0.0.0.0.0.0.0",
        "4294967296.0.0.0.0.0.0.0",
        "0" * 10**6,
    ],
)
def test_what_is_no_list_of_numbers_solves_nothing(solution: str) -> None:
    assert not is_solved("challenge", 0, solution)


def test_the_longest_solution_fits() -> None:
    assert len(".".join([str(2**32 - 1)] * PARTS)) == LONGEST_SOLUTION


def test_the_page_has_what_the_script_needs() -> None:
    puzzle = Puzzle("challenge", 20)
    assert (puzzle.prefix, puzzle.part_bits, puzzle.parts) == (sha256(b"challenge").hexdigest(), 17, 8)
    assert part_bits(1) == 0


def test_purposes_of_mails_are_counted_together() -> None:
    assert {purpose.traffic for purpose in PuzzlePurpose if purpose is not PuzzlePurpose.SIGN_IN} == {Traffic.MAILS}
    assert PuzzlePurpose.SIGN_IN.traffic is Traffic.FAILURES


def test_an_hour_of_a_network_has_one_name() -> None:
    one = hour_of_network("192.0.2.0/24", PuzzlePurpose.RESET, NOW)
    assert one == hour_of_network("192.0.2.0/24", PuzzlePurpose.RESET, NOW + timedelta(minutes=59))
    others = {
        hour_of_network("192.0.2.0/24", PuzzlePurpose.RESET, NOW + timedelta(minutes=60)),
        hour_of_network("192.0.2.0/24", PuzzlePurpose.LINK, NOW),
        hour_of_network("192.0.3.0/24", PuzzlePurpose.RESET, NOW),
    }
    assert len({one, *others}) == 4
