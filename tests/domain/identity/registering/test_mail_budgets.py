"""Budgets of mails: which count, when what waits goes out, and which exceptions can be made."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.registering import (
    BUDGET_HOUR,
    MOST_HOURS,
    AskedFrom,
    BudgetScope,
    BudgetSizes,
    budget_key,
    comes_from_reserve_alone,
    held_back,
    held_until,
    hour_of,
    require_end,
)
from core.domain.mail import Email

NOW = datetime(2026, 11, 27, 10, 15, tzinfo=UTC)
SIZES = BudgetSizes(20, 60, 300, 3000)


def scopes(email: str, organization: str = "", sizes: BudgetSizes = SIZES) -> list[tuple[str, str, int]]:
    asked = AskedFrom("203.0.113.0/24", Email(email), organization)
    return [(one.scope.value, one.key, one.size) for one in asked.budgets(sizes)]


def test_the_narrowest_budget_comes_first() -> None:
    assert scopes("ada@ACME.example", "acme") == [
        ("network", "203.0.113.0/24", 20),
        ("mail_domain", "acme.example", 60),
        ("organization", "acme", 300),
        ("installation", "", 3000),
    ]


def test_whoever_has_a_48_has_not_256_budgets() -> None:
    asked = AskedFrom("2001:db8:1:200::/56", Email("ada@gmail.com"))
    assert [(one.scope.value, one.key, one.size) for one in asked.budgets(SIZES)] == [
        ("network", "2001:db8:1:200::/56", 20),
        ("network", "2001:db8:1::/48", 80),
        ("installation", "", 3000),
    ]


def test_free_mail_and_no_organization_have_no_budget() -> None:
    assert [scope for scope, _, _ in scopes("ada@gmail.com")] == ["network", "installation"]


def test_a_budget_of_nought_is_none() -> None:
    assert scopes("ada@acme.example", "acme", BudgetSizes(0, 60, 0, 0)) == [("mail_domain", "acme.example", 60)]


def test_what_was_asked_for_earlier_goes_out_earlier_within_the_first_minute_of_its_hour() -> None:
    ten, eleven = hour_of(NOW), hour_of(NOW) + BUDGET_HOUR
    moments = [held_until(at, 1) for at in (ten, NOW, eleven - timedelta(microseconds=1))]
    assert moments == sorted(moments)
    assert moments[0] == eleven
    assert moments[-1] <= eleven + timedelta(minutes=1)
    assert held_until(NOW, 3) == moments[1] + 2 * BUDGET_HOUR


def test_what_has_no_hour_of_the_day_is_told_from_what_waits() -> None:
    for at in (hour_of(NOW), NOW, hour_of(NOW) + BUDGET_HOUR - timedelta(microseconds=1)):
        assert not comes_from_reserve_alone(held_until(at, MOST_HOURS), at)
        assert comes_from_reserve_alone(held_until(at, MOST_HOURS + 1), at)


def test_an_hour_is_the_same_in_every_time_zone() -> None:
    kathmandu = timezone(timedelta(hours=5, minutes=45))
    assert hour_of(NOW.astimezone(kathmandu)) == hour_of(NOW) == datetime(2026, 11, 27, 10, tzinfo=UTC)
    assert held_back(NOW).retry_after == 45 * 60


@pytest.mark.parametrize(
    ("scope", "text", "key"),
    [
        (BudgetScope.NETWORK, " 203.0.113.7 ", "203.0.113.0/24"),
        (BudgetScope.NETWORK, "203.0.113.0/24", "203.0.113.0/24"),
        (BudgetScope.NETWORK, "::ffff:203.0.113.7", "203.0.113.0/24"),
        (BudgetScope.NETWORK, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
        (BudgetScope.NETWORK, "2001:db8:1::/48", "2001:db8:1::/48"),
        (BudgetScope.NETWORK, "203.0.113.0/48", "203.0.113.0/24"),
        (BudgetScope.MAIL_DOMAIN, "ACME.example", "acme.example"),
        (BudgetScope.ORGANIZATION, "01A21B6F-FC50-77B4-B44E-E961B304300B", "01a21b6f-fc50-77b4-b44e-e961b304300b"),
        (BudgetScope.INSTALLATION, "whatever", ""),
    ],
)
def test_a_key_is_read_as_people_write_it(scope: BudgetScope, text: str, key: str) -> None:
    assert budget_key(scope, text) == key


@pytest.mark.parametrize(
    ("scope", "text", "words"),
    [
        (BudgetScope.NETWORK, "home", "budget_network"),
        (BudgetScope.MAIL_DOMAIN, "acme", "budget_domain"),
        (BudgetScope.MAIL_DOMAIN, "two words.example", "budget_domain"),
        (BudgetScope.MAIL_DOMAIN, "gmail.com", "budget_free_mail"),
        (BudgetScope.ORGANIZATION, "acme", "budget_organization"),
    ],
)
def test_a_key_that_names_nothing_is_refused_in_words(scope: BudgetScope, text: str, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        budget_key(scope, text)
    assert refusal.value.words == words


@pytest.mark.parametrize(("hours", "words"), [(0, "budget_end_past"), (-1, "budget_end_past"), (169, "budget_end_far")])
def test_an_exception_has_an_end_that_comes_within_a_week(hours: int, words: str) -> None:
    require_end(NOW + timedelta(hours=168), NOW)
    with pytest.raises(BadRequest) as refusal:
        require_end(NOW + timedelta(hours=hours), NOW)
    assert refusal.value.words == words
