"""Amounts of money in the own unit of their currency."""

import pytest

from core.domain.errors import BadRequest
from core.domain.services.plans import HIGHEST_PRICE, decimals_of, in_smallest_unit, written


@pytest.mark.parametrize(
    ("smallest", "currency", "amount"),
    [
        (990, "eur", "9.90"),
        (990, "EUR", "9.90"),
        (5, "usd", "0.05"),
        (0, "usd", "0.00"),
        (990, "jpy", "990"),
        (9900, "kwd", "9.900"),
        (9, "kwd", "0.009"),
        (12345, "clf", "1.2345"),
        (990, "xyz", "9.90"),
        (HIGHEST_PRICE, "eur", "21474836.47"),
        (HIGHEST_PRICE, "jpy", "2147483647"),
    ],
)
def test_an_amount_is_written_and_read_back(smallest: int, currency: str, amount: str) -> None:
    assert written(smallest, currency) == amount
    assert in_smallest_unit(amount, currency) == smallest


@pytest.mark.parametrize(
    ("text", "currency", "smallest"),
    [(" 9,90 ", "eur", 990), ("9", "eur", 900), ("9.9", "eur", 990), ("9.900", "eur", 990), ("990.00", "jpy", 990), ("1,000", "kwd", 1000)],
)
def test_people_write_amounts_in_several_ways(text: str, currency: str, smallest: int) -> None:
    assert in_smallest_unit(text, currency) == smallest


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        *((text, "eur") for text in ("", "much", "-1", "+1", ".90", "9.", "9.905", "1,234.50", "1 000", "1e3", "٩")),
        ("21474836.48", "eur"),
        ("9" * 11, "eur"),
        ("9.90", "jpy"),
        ("2147483648", "jpy"),
        ("9.9001", "kwd"),
    ],
)
def test_what_is_no_amount_of_the_currency_is_refused(text: str, currency: str) -> None:
    with pytest.raises(BadRequest, match="price"):
        in_smallest_unit(text, currency)


def test_currencies_have_two_decimals_but_for_those_of_the_list() -> None:
    assert [decimals_of(one) for one in ("eur", "jpy", "kwd", "uyw", " JPY ", "")] == [2, 0, 3, 4, 0, 2]
