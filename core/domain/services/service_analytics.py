"""The numbers that a service may know about its use."""

from datetime import timedelta
from typing import Final

from core.frozen import Frozen

# The time over which sign-ins are counted.
LOOKED_BACK: Final = timedelta(days=30)


class ServiceAnalytics(Frozen, kw_only=True):
    """The sign-ins of the last thirty days, and the people behind them."""

    total_users: int
    total_subscriptions: int
    active_subscriptions: int
    total_logins: int
    unique_users: int
