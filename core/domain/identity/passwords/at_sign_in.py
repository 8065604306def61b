"""Passwords that stand in lists of stolen ones, and what happens at a sign-in with one. They are looked up only after the password was
right, so that nobody learns from the answer, or from its time, what stands in a list and is an account's password.
"""

from enum import StrEnum
from typing import Final

from core.domain.identifiers import UserId
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target


class AtSignIn(StrEnum):
    """What a sign-in with a breached password does."""

    OFF = "off"
    """Nothing: it is not even looked up."""
    TELL = "tell"
    """It lets the person in, and mails them."""
    CHANGE = "change"
    """It lets nobody in, and mails a link to choose another password: whoever knows a stolen password need not be its owner."""


class BreachRule(StrEnum):
    """What an organization asks for, beyond the installation."""

    TELL = "tell"
    CHANGE = "change"


_STRICTNESS: Final = (AtSignIn.OFF, AtSignIn.TELL, AtSignIn.CHANGE)

# Who keeps the password hears of it again after a month, and not at every sign-in.
BREACH_MAILS: Final = RateLimit("breach_mails", burst=1, seconds_per_request=30 * 86_400)


def strictest(one: AtSignIn, other: AtSignIn) -> AtSignIn:
    return max(one, other, key=_STRICTNESS.index)


def password_breached(user: UserId, actor: Actor) -> Event:
    """The event does not say what the sign-in did: the rule may be another organization's."""
    return Event("security.password.breached", actor, Target("user", str(user)))
