"""The key pairs that sign our SAML messages, and how long they are good."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import Refusal

VALIDITY_YEARS: Final = 3


class CertificateNotMade(Refusal):
    """Making the key pair, or encrypting it, failed."""

    code = "INTERNAL_SERVER_ERROR"
    text = "The certificate could not be made"


def three_years_after(moment: datetime) -> datetime:
    """The same day, three years later. February 29 becomes February 28."""
    try:
        return moment.replace(year=moment.year + VALIDITY_YEARS)
    except ValueError:
        return moment.replace(year=moment.year + VALIDITY_YEARS, day=28)


def due_warning(ends_at: datetime, warned: int | None, now: datetime, warnings: Sequence[int]) -> int | None:
    """The warning that is due now, in days. None when no warning is due, or when this one has been sent."""
    left = ends_at - now
    due = [days for days in warnings if left <= timedelta(days=days)]
    if not due or left <= timedelta(0):
        return None
    return min(due) if warned is None or min(due) < warned else None
