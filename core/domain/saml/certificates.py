"""The key pairs that sign our SAML messages, and how long they are good."""

from datetime import datetime
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
