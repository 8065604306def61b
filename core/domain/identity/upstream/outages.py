"""Outages of upstream providers. The calls of all processes report them."""

from datetime import datetime, timedelta
from typing import Final

# Counted from the last failed call, unless a call has succeeded since. Long enough for people to use their password when a page tells them
# to. Short enough to ask the provider again soon: while we send nobody there, no call can succeed.
OUTAGE_LASTS: Final = timedelta(minutes=10)


def is_away(failed_at: datetime | None, now: datetime) -> bool:
    return failed_at is not None and now < failed_at + OUTAGE_LASTS
