"""Authentication of a session: when it happened, which actions require it to be recent, and the authenticators of an account."""

from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from core.domain.errors import BadRequest, ReauthenticationRequired
from core.domain.identifiers import SessionId, UserId
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class ProofMethod(StrEnum):
    """The way in which the proof of a session was renewed. A closed list, because it is the label of a metric."""

    PASSWORD = "password"  # noqa: S105 - a way to prove something, not a password
    CODE = "code"
    LINK = "link"
    PASSKEY = "passkey"
    UPSTREAM = "upstream"
    MAIL = "mail"


# The time of a sign-in at a provider that states none: so long ago that it is fresh for nothing.
SILENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A provider's clock may be behind ours by so much.
CLOCKS_DIFFER: Final = timedelta(minutes=1)


def stated(at: datetime | None, now: datetime) -> datetime:
    """The time of a sign-in at a provider, by the provider's own word, which reaches no further than `now`."""
    return SILENT if at is None else min(max(at, SILENT), now)


class Proved(Frozen):
    """When the user of a session last authenticated. A refresh of the tokens renews neither time."""

    at: datetime | None = None
    """The time of the last password, or of another way to sign in. Sessions last from then on."""
    second_factor_at: datetime | None = None
    stated_at: datetime | None = None
    """When the person signed in at the provider that vouched for them, by its own word; `SILENT` if it states no time. None when the person
    gave the proof here.
    """
    refuses_applications: bool = False
    """The directory that vouched for the person lets them use our own pages, and no application. A proof that is given here ends this."""

    @property
    def shown_at(self) -> datetime | None:
        """The time for which the proof shows that its person was there. A provider may vouch today for somebody who signed in yesterday."""
        return self.at if self.stated_at is None else self.stated_at

    @property
    def is_silent(self) -> bool:
        """Whether the proof shows who came, and not when."""
        return self.stated_at is not None and self.stated_at <= SILENT

    def is_afresh(self, since: datetime) -> bool:
        """Whether the person has come, and has signed in, since then. The clock of a provider may differ."""
        return self.at is not None and self.at >= since and (self.shown_at or SILENT) >= since - CLOCKS_DIFFER


UNPROVED: Final = Proved()


class Standing(Frozen):
    """The proofs of a session, and whether its person has a second factor."""

    proved: Proved
    second_factor_since: datetime | None
    """When the second factor was enabled. None when the person has no second factor."""
    has_password: bool = True
    has_authenticator: bool = True
    """Whether an authenticator app is part of the second factor. Otherwise only backup codes are accepted as codes."""
    has_passkey: bool = False
    has_proved_address: bool = False
    """Whether the person has shown that they read the mail to the account's address."""


class StepUp(Enum):
    """The actions that need a fresh proof."""

    SECOND_FACTOR = auto()
    """A change of a second factor that is on. Enabling a second factor is a proof of it, so the person may go on to the backup codes or
    disable it again, also twice.
    """
    ACCOUNT = auto()
    """A change of what makes the account valuable to a thief: its address, its ways to sign in, what it owns, and a first second factor,
    which locks out everybody else. The code that enables a second factor is no proof here: it shows who has the new secret, not who owns
    the account.
    """
    SIGN_IN = auto()
    """An application that wants to know that the person is there now. Only the first proof counts."""


class FreshProofNeeded(Exception):
    """A use case learned under its locks that this change needs a fresh proof. It is never shown to a caller."""


def missing_proof(standing: Standing, asked: StepUp, now: datetime, window: timedelta) -> ProofMethod | None:
    """The proof that is not fresh enough; the first of them when two are needed. None when nothing is missing."""

    def is_fresh(at: datetime | None) -> bool:
        return at is not None and now - at <= window

    proved, since = standing.proved, standing.second_factor_since
    if asked is StepUp.SIGN_IN:
        return None if is_fresh(proved.shown_at) else ProofMethod.PASSWORD
    if since is None:
        # After a second factor is disabled, its last proof counts for one thing only: disabling it twice.
        gone = proved.second_factor_at if asked is StepUp.SECOND_FACTOR else None
        return None if is_fresh(proved.shown_at) or is_fresh(gone) else ProofMethod.PASSWORD
    if not is_fresh(proved.second_factor_at) or not _is_since(since, proved.second_factor_at):
        return ProofMethod.CODE
    # A session that began after the second factor was enabled has met it, whenever its person signed in at a provider.
    enough = asked is StepUp.SECOND_FACTOR or _is_since(since, proved.at) or is_fresh(proved.shown_at)
    return None if enough else ProofMethod.PASSWORD


def _is_since(since: datetime, at: datetime | None) -> bool:
    return at is not None and at >= since


def require_fresh(standing: Standing, asked: StepUp, now: datetime, window: timedelta) -> None:
    """Raises `ReauthenticationRequired`, which names the proof that would be enough."""
    missing = missing_proof(standing, asked, now, window)
    if missing is not None:
        message, words = (_SECOND, "code_needed_again") if missing is ProofMethod.CODE else (_FIRST, "password_needed_again")
        raise ReauthenticationRequired(message, max_age=window, words=words)


_FIRST: Final = "Verify your identity again: send your password to POST /api/auth/reauthenticate, or sign in again"
_SECOND: Final = "Verify your identity again: send an MFA code to POST /api/auth/reauthenticate, or sign in again"


def proof_renewed(user: UserId, session: SessionId, method: ProofMethod, actor: Actor) -> Event:
    details = {"session_id": str(session), "method": method.value}
    return Event("security.session.reauthenticated", actor, Target("user", str(user)), details=details)


class WaysIn(Frozen):
    """The number of authenticators of each kind with which the user can sign in. A magic link does not count: organizations may turn links
    off, and users may lose their mailbox.
    """

    password: bool
    passkeys: int
    identities: int

    @property
    def count(self) -> int:
        return int(self.password) + self.passkeys + self.identities


class LastWayIn(BadRequest):
    text = "This is the last sign-in method of the account: set a password or add another sign-in method first"

    def __init__(self) -> None:
        super().__init__(words="last_way_in")


def require_another(left: WaysIn) -> None:
    """Refuses to remove the last authenticator: without it the user could not sign in any more, and would need help.

    Checks the removal of one way in. `left` are the others; a provider that would not let the person in does not count. The caller holds
    the account, so of two removals at once the second sees that the first way is gone. Raises `LastWayIn`.
    """
    if left.count == 0:
        raise LastWayIn
