"""What a service may know of how much it is used."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

# What is counted of sign-ins.
LOOKED_BACK: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnalytics:
    """Sign-ins, and the people behind them, are those of the last thirty days."""

    total_users: int
    total_subscriptions: int
    active_subscriptions: int
    total_logins: int
    unique_users: int
