"""Proofs: what shows that a person is who they say they are, when a session had each proof, and what needs a fresh one."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from core.domain.errors import ReauthenticationRequired
from core.domain.identifiers import SessionId, UserId
from core.domain.record.events import Actor, Event, Target


class ProofMethod(StrEnum):
    """What renewed the proof of a session. A closed list, because it is the label of a metric."""

    PASSWORD = "password"  # noqa: S105 - a way to prove something, not a password
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Proved:
    """When the person of a session last proved who they are. A refresh renews neither time."""

    at: datetime | None = None
    """By a password, or by another way to sign in."""
    second_factor_at: datetime | None = None


UNPROVED: Final = Proved()


@dataclass(frozen=True, slots=True)
class Standing:
    """What a session has proved, and whether its person has a second factor."""

    proved: Proved
    second_factor_since: datetime | None
    """When it was enabled. None: the person has no second factor."""


class StepUp(Enum):
    """What needs a fresh proof."""

    SECOND_FACTOR = auto()
    """A change of the second factor itself. Enabling it proves it, so the person may go on to the backup codes or disable it again."""
    ACCOUNT = auto()
    """What makes the account valuable to a thief: its address, and what it owns. Enabling a second factor needs no proof, so it proves
    nothing here: a thief with a stolen session could enable one of their own.
    """


def require_fresh(standing: Standing, asked: StepUp, now: datetime, window: timedelta) -> None:
    """Raises `ReauthenticationRequired`, which says which proof would be enough."""

    def is_fresh(at: datetime | None) -> bool:
        return at is not None and now - at <= window

    proved, since = standing.proved, standing.second_factor_since
    if since is None:
        if not (is_fresh(proved.at) or is_fresh(proved.second_factor_at)):
            raise ReauthenticationRequired(_FIRST, max_age=window)
        return
    if not is_fresh(proved.second_factor_at):
        raise ReauthenticationRequired(_SECOND, max_age=window)
    signed_in_since = proved.at is not None and proved.at >= since
    if asked is StepUp.ACCOUNT and not signed_in_since and not is_fresh(proved.at):
        raise ReauthenticationRequired(_FIRST, max_age=window)


_FIRST: Final = "Prove again who you are: send your password to POST /api/auth/reauthenticate, or sign in again"
_SECOND: Final = "Prove again who you are: send a code of your second factor to POST /api/auth/reauthenticate, or sign in again"


def proof_renewed(user: UserId, session: SessionId, method: ProofMethod, actor: Actor) -> Event:
    details = {"session_id": str(session), "method": method.value}
    return Event("security.session.reauthenticated", actor, Target("user", str(user)), details=details)
