"""Password rules: what a breached password leads to, and what a user's next password must satisfy."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.identity.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from core.domain.mail import Email
from core.domain.normal_forms import LONGEST_NORMALIZED, NotNormalized, folded
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Password
from core.frozen import Frozen


class AtSignIn(StrEnum):
    """What a sign-in with a breached password does."""

    OFF = "off"
    """Nothing: it is not even looked up."""
    TELL = "tell"
    """It lets the person in, and mails them."""
    CHANGE = "change"
    """It lets nobody in, and mails a link to choose another password: whoever knows a stolen password need not be its owner."""


class BreachRule(StrEnum):
    """What an organization requires beyond the rules of the installation."""

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


LONGEST_LEAST: Final = 64
"""The longest that a rule may ask for at least."""
_SHORTEST_WORD: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")


class PasswordStanding(Frozen):
    """The requirements for a user's next password: the strictest rule of the organizations that the user has joined by their own act, and
    the words that the user has as a name.
    """

    shortest: int | None = None
    """The longest of the least lengths that the person's organizations ask for. None: they ask for none."""
    names: tuple[str, ...] = ()
    """Of the person, of these organizations, and of applications."""


STRANGER: Final = PasswordStanding()
"""Somebody of whom nothing is known, or nothing may be."""


def require_acceptable(password: Password, email: Email, shortest: int = SHORTEST_PASSWORD, names: Sequence[str] = ()) -> None:
    """Checks the length, and rejects the guesses that the person's own words make obvious. Ports know the passwords that others know."""
    text = password.reveal()
    if len(text) < shortest:
        message = f"The password must have at least {shortest} characters"
        raise BadRequest(message, words="password_too_short", values={"shortest": shortest})
    if len(text) > LONGEST_PASSWORD:
        message = f"The password must have at most {LONGEST_PASSWORD} characters"
        raise BadRequest(message, words="password_too_long", values={"longest": LONGEST_PASSWORD})
    if Email(text).key == email.key:
        raise BadRequest("The password must not be the email address", words="password_is_address")
    plain = folded(text, LONGEST_PASSWORD, any_marks=True)
    rest = _without(plain, _own_words((email.address, *names)))
    if rest != plain and len(rest) < SHORTEST_PASSWORD:
        message = (
            "Without your name, your email address, and the names of your organizations and applications, the password must have "
            f"at least {SHORTEST_PASSWORD} characters"
        )
        raise BadRequest(message, words="password_own_words", values={"shortest": SHORTEST_PASSWORD})


def _own_words(texts: Iterable[str]) -> Sequence[str]:
    """The words of four letters and more, the longest first."""
    words = {word for text in texts for word in _WORD.findall(_plain_name(text)) if len(word) >= _SHORTEST_WORD}
    return sorted(words, key=lambda word: (-len(word), word))


def _without(text: str, words: Iterable[str]) -> str:
    for word in words:
        text = text.replace(word, "")
    return text


def _plain_name(text: str) -> str:
    """Returns the name as e-mail addresses are compared. Empty for one that nobody would type into a password."""
    try:
        return folded(text, LONGEST_NORMALIZED)
    except NotNormalized:
        return ""
