"""Repeats: the same form sent twice, by a person who clicks twice, or whose first answer never arrived. For a moment after the first form,
the second gets the same answer.
"""

from datetime import datetime, timedelta
from typing import Final

MOMENT: Final = timedelta(seconds=10)


def is_just_past(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at <= MOMENT
