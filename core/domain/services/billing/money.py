"""Amounts of money, as people write them: in the currency's own unit, with its number of decimals (ISO 4217). Everything else counts in the
smallest unit.
"""

import re
from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.services.plans import HIGHEST_PRICE

_USUAL: Final = 2
_OTHERS: Final[Mapping[int, str]] = {
    0: "bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf",
    3: "bhd iqd jod kwd lyd omr tnd",
    4: "clf uyw",
}
_DECIMALS: Final = {currency: decimals for decimals, currencies in _OTHERS.items() for currency in currencies.split()}
# A point and a comma both stand before the decimals, and nothing stands between thousands: "1,000" is a thousand dollars to some readers
# and one dinar to others.
_AMOUNT: Final = re.compile(r"(?P<whole>\d{1,10})(?:[.,](?P<part>\d{1,4}))?", re.ASCII)


def decimals_of(currency: str) -> int:
    """How many decimals amounts of this currency have. Two, if nobody knows the currency."""
    return _DECIMALS.get(currency.strip().lower(), _USUAL)


def written(smallest: int, currency: str) -> str:
    """The amount without the currency: 990 is "9.90" in euros and "990" in yen."""
    decimals = decimals_of(currency)
    whole, part = divmod(smallest, 10**decimals)
    return f"{whole}.{part:0{decimals}}" if decimals else str(whole)


def priced(smallest: int, currency: str) -> str:
    """The amount with its currency: "9.90 EUR"."""
    return f"{written(smallest, currency)} {currency.upper()}"


def in_smallest_unit(text: str, currency: str) -> int:
    """Raises `BadRequest` for what is no amount of this currency, or more than a price can be."""
    found, decimals = _AMOUNT.fullmatch(text.strip()), decimals_of(currency)
    part = "" if found is None else (found["part"] or "").rstrip("0")
    if found is None or len(part) > decimals:
        raise BadRequest("price: an amount with the decimals of its currency", words="amount_malformed")
    smallest = int(found["whole"] + part.ljust(decimals, "0"))
    if smallest > HIGHEST_PRICE:
        raise BadRequest(f"price: at most {written(HIGHEST_PRICE, currency)}", words="amount_malformed")
    return smallest
