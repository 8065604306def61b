from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.domain.identity.devices import Client
from core.domain.identity.guards.guesses import (
    LONGEST_DELAY,
    MARKS,
    OTHER_FAMILY,
    SLOTS,
    SUSPICIONS,
    GuessKind,
    HourKey,
    delay_of,
    family_of,
    guessed,
    hour_of_guess,
    origin_of,
    spread_of,
)
from core.domain.mail import Email
from core.domain.secrets import Password

NOW = datetime(2026, 11, 27, 5, 30, tzinfo=UTC)
KEY = HourKey(b"k" * 32)
HERE = origin_of(Client("2001:db8::1", "Mozilla/5.0 Firefox/140.0"))


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36", "chrome"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0", "edge"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 OPR/120", "opera"),
        ("Mozilla/5.0 (Linux; Android 15) SamsungBrowser/28.0 Chrome/130.0 Mobile Safari/537.36", "samsung"),
        ("Mozilla/5.0 (iPhone) AppleWebKit/605.1 CriOS/140.0 Mobile Safari/604.1", "chrome"),
        ("Mozilla/5.0 (iPhone) AppleWebKit/605.1 FxiOS/140.0 Mobile Safari/605.1", "firefox"),
        ("Mozilla/5.0 (Macintosh) AppleWebKit/605.1 Version/18.0 Safari/605.1", "safari"),
        ("", OTHER_FAMILY),
        ("curl/8.0", OTHER_FAMILY),
        ("Made-up/7", OTHER_FAMILY),
        ("x" * 1000 + " Firefox", OTHER_FAMILY),
    ],
)
def test_families_are_a_closed_list(said: str, family: str) -> None:
    assert family_of(said) == family


def test_a_guess_counts_at_four_places_in_the_order_of_their_locks() -> None:
    guess = guessed(KEY, Email("ada@example.org"), Password("\ud800 secret"), HERE, user=None, now=NOW)
    assert [one.place.kind for one in guess.counts] == sorted(GuessKind)
    assert all(0 <= one.place.slot < SLOTS and 0 <= one.mark < MARKS for one in guess.counts)
    assert [one.place.key for one in guess.counts if one.place.kind in {GuessKind.NETWORK, GuessKind.WIDE}] == [
        "2001:db8::/56 firefox",
        "2001:db8::/48",
    ]
    assert "secret" not in repr(guess)


def test_the_row_of_an_account_says_nothing_of_the_address_and_that_of_a_password_nothing_but_its_slot() -> None:
    one = guessed(KEY, Email("ada@example.org"), Password("secret"), HERE, user=None, now=NOW)
    another = guessed(KEY, Email("Ada@Example.org"), Password("other"), HERE, user=None, now=NOW)
    account, _, password, _ = one.counts
    assert account.place == another.counts[0].place
    assert "ada" not in account.place.key
    assert password.place.key == ""
    assert password.place != another.counts[2].place
    assert password.mark == another.counts[2].mark


def test_the_hour_is_that_of_the_world_and_not_of_a_place() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert hour_of_guess(elsewhere) == hour_of_guess(NOW) == datetime(2026, 11, 27, 5, tzinfo=UTC)


def test_marks_tell_about_how_many() -> None:
    assert [spread_of(marks) for marks in (0, 1, 9, 17, 63, 64)] == [0, 1, 10, 20, 266, 266]
    assert {kind: suspicion.marks for kind, suspicion in SUSPICIONS.items()} == {
        GuessKind.ACCOUNT: 13,
        GuessKind.NETWORK: 9,
        GuessKind.PASSWORD: 17,
        GuessKind.WIDE: 9,
    }


def test_an_answer_waits_longer_the_more_fail_and_never_long() -> None:
    assert [delay_of(pressure) for pressure in (0, 0.99, 1, 2.5, 100)] == [0, 0, 1, 2.5, LONGEST_DELAY]
