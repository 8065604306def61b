"""The time that a client may keep us waiting."""

import pytest

from entrypoints.http.server.limits import Pace, ServerSettings

SETTINGS = ServerSettings(silence=10, transfer_patience=20, least_bytes_a_second=1000)


def lasts(pace: Pace, every: float, moves: int, most: float = 1000) -> float:
    """The seconds until a client that moves so many bytes every so often is cut off."""
    waited = 0.0
    while pace.patience > every:
        pace.waited(every, moves)
        waited += every
        if waited > most:
            return waited
    return waited + pace.patience


@pytest.mark.parametrize(("every", "moves"), [(4, 1), (0.1, 1), (10, 0), (4, 400)])
def test_a_trickle_is_as_good_as_silence(every: float, moves: int) -> None:
    assert 10 <= lasts(Pace(SETTINGS), every, moves) < 11.2


@pytest.mark.parametrize(("every", "moves"), [(1, 1000), (9, 9000), (0.01, 65_536)])
def test_who_keeps_the_pace_has_all_the_time(every: float, moves: int) -> None:
    assert lasts(Pace(SETTINGS), every, moves) > 1000


def test_what_came_quickly_at_first_buys_no_time_later() -> None:
    pace = Pace(SETTINGS)
    pace.waited(0.1, 10_000_000)
    assert 10 <= lasts(pace, 4, 1) < 10.1


def test_all_of_a_transfer_has_its_time_too() -> None:
    pace = Pace(ServerSettings(silence=10, transfer_patience=2, least_bytes_a_second=1000))
    assert pace.patience == 2
    pace.waited(1, 500)
    assert pace.patience == 1.5
