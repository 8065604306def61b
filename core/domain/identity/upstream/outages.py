"""Outages of upstream providers, as the calls of all processes meet them."""

from datetime import datetime, timedelta
from typing import Final

# From the last call that failed, unless one has succeeded since. Long enough that people who are told to use their password can do so, and
# short enough that the provider is asked again soon: while nobody is sent there, no call can succeed.
OUTAGE_LASTS: Final = timedelta(minutes=10)


def is_away(failed_at: datetime | None, now: datetime) -> bool:
    return failed_at is not None and now < failed_at + OUTAGE_LASTS
