"""Detects credential stuffing and password spraying: what is counted of a failed sign-in, and what follows from the counts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hmac import digest
from math import log
from typing import Final, NewType

from core.domain.identifiers import UserId
from core.domain.identity.devices import LONGEST_USER_AGENT, Client
from core.domain.identity.guards.traffic import WIDER, network_of, wider_network_of
from core.domain.identity.login_events import Alert, AlertType
from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import Frozen

HourKey = NewType("HourKey", bytes)
"""The key of an hour, from the key ring. It stands nowhere: whoever needs it derives it again."""

HOUR: Final = timedelta(hours=1)
# A count has one of so many rows of its kind, and its marks are those of a word of 64 bits.
SLOTS: Final = 1 << 16
MARKS: Final = 64
# What a page asks for while somebody guesses from there: a sixth of a second on a desktop, some two seconds on a slow phone.
GUESSING_BITS: Final = 18
LONGEST_DELAY: Final = 4.0

# Parts of a browser's own description, the more special first: most browsers also name the browsers that they resemble. A description may
# say anything, so the list is closed: nobody makes a new family up for each guess.
_FAMILIES: Final = (
    ("edg", "edge"),
    ("opr/", "opera"),
    ("samsungbrowser", "samsung"),
    ("firefox", "firefox"),
    ("fxios", "firefox"),
    ("crios", "chrome"),
    ("chrom", "chrome"),
    ("safari", "safari"),
)
OTHER_FAMILY: Final = "other"


class GuessKind(StrEnum):
    """What a count counts. The order is that of their locks."""

    ACCOUNT = "account"
    """The marks are passwords; those of all others are accounts."""
    NETWORK = "network"
    """A network together with a family."""
    PASSWORD = "password"  # noqa: S105 - a kind, not a password
    WIDE = "wide"
    """A network of any family, for those who change their family; in IPv6 a /48."""


class Suspicion(Frozen):
    """From which counts on it is no coincidence."""

    failures: int
    spread: int
    """How many accounts, or passwords."""
    alert: AlertType

    @property
    def marks(self) -> int:
        """How many marks so many leave, on average."""
        return round(MARKS * (1 - (1 - 1 / MARKS) ** self.spread))


# An office of a hundred people mistypes less than this in an hour, and its people's own devices do not count at all.
_NETWORK: Final = Suspicion(40, 10, AlertType.MANY_ACCOUNTS_FROM_ONE_NETWORK)
SUSPICIONS: Final = {
    GuessKind.ACCOUNT: Suspicion(15, 15, AlertType.MANY_PASSWORDS_OVER_ONE_ACCOUNT),
    GuessKind.NETWORK: _NETWORK,
    # By chance, so many accounts have one of 65 536 values when more than half a million sign-ins fail within the hour.
    GuessKind.PASSWORD: Suspicion(20, 20, AlertType.ONE_PASSWORD_OVER_MANY_ACCOUNTS),
    GuessKind.WIDE: Suspicion(WIDER * _NETWORK.failures, _NETWORK.spread, AlertType.MANY_ACCOUNTS_FROM_ONE_NETWORK),
}


class GuessOrigin(Frozen):
    """Where a try comes from: the IPv4 /24 or the IPv6 /56, and the family of its browser."""

    network: str
    family: str

    @property
    def widest(self) -> str:
        return wider_network_of(self.network) or self.network


class GuessPlace(Frozen):
    """The row of a count: its kind, its slot, and the key that the slot belongs to meanwhile."""

    kind: GuessKind
    slot: int
    key: str


class GuessCount(Frozen):
    """What one failure adds to a count."""

    place: GuessPlace
    mark: int


class OriginPlaces(Frozen):
    """The rows that decide how a try is treated, in this hour."""

    hour: datetime
    places: tuple[GuessPlace, ...]


class FailedGuess(Frozen):
    """A failed sign-in, as it is counted. Failures are counted by network and family of browser. The 16 bits of a password's digest group
    failures for an alert alone: whether a try continues never depends on them. Each count tells which accounts it has seen by 64 marks, so
    that no row names two things together: the row of a password names no account, and that of an account no password. `repr` shows neither
    key nor bits of the password.
    """

    hour: datetime
    at: datetime
    origin: GuessOrigin
    user: UserId | None
    counts: tuple[GuessCount, ...]

    def __repr__(self) -> str:
        return f"FailedGuess({self.hour}, ***)"


class GuessAlert(Frozen):
    """Guesses that were noticed, which are about no one person. Nothing of a password is left in it."""

    type: AlertType
    network: str | None
    family: str | None
    accounts: int
    """About how many."""
    failures: int
    first_at: datetime
    last_at: datetime


class Suspicions(Frozen):
    """What was noticed in the last hours, latest first."""

    of_people: Sequence[Alert]
    of_nobody: Sequence[GuessAlert]


def family_of(user_agent: str) -> str:
    said = user_agent[:LONGEST_USER_AGENT].lower()
    return next((family for part, family in _FAMILIES if part in said), OTHER_FAMILY)


def origin_of(client: Client) -> GuessOrigin:
    return GuessOrigin(network_of(client.address), family_of(client.user_agent))


def hour_of_guess(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def origin_places(key: HourKey, origin: GuessOrigin) -> tuple[GuessPlace, GuessPlace]:
    """The slots depend on the key, so nobody chooses two networks of one slot."""
    narrow, wide = f"{origin.network} {origin.family}", origin.widest
    return (
        GuessPlace(GuessKind.NETWORK, _number(key, f"network {narrow}", SLOTS), narrow),
        GuessPlace(GuessKind.WIDE, _number(key, f"wide {wide}", SLOTS), wide),
    )


def guessed(key: HourKey, email: Email, password: Password, origin: GuessOrigin, *, user: UserId | None, now: datetime) -> FailedGuess:
    """Makes what is counted of a failure. The 16 bits are the slot of the password's row, and stand nowhere else."""
    account = _digest(key, f"account {email.key}")
    bits = _number(key, f"password {password.reveal()}", SLOTS)
    by_account = int.from_bytes(account[:8]) % MARKS
    narrow, wide = origin_places(key, origin)
    return FailedGuess(
        hour_of_guess(now),
        now,
        origin,
        user,
        (
            GuessCount(GuessPlace(GuessKind.ACCOUNT, int.from_bytes(account[8:16]) % SLOTS, account[16:].hex()), bits % MARKS),
            GuessCount(narrow, by_account),
            GuessCount(GuessPlace(GuessKind.PASSWORD, bits, ""), by_account),
            GuessCount(wide, by_account),
        ),
    )


def spread_of(marks: int) -> int:
    """About how many different ones leave so many of the 64 marks. Somewhat over 250 they all stand, and nobody can tell any more."""
    return round(-MARKS * log(1 - min(marks, MARKS - 1) / MARKS))


def delay_of(pressure: float) -> float:
    """For how many seconds an answer waits. `pressure` is how many times as many failures as are usual came from there."""
    return 0.0 if pressure < 1 else min(pressure, LONGEST_DELAY)


def _digest(key: HourKey, text: str) -> bytes:
    return digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def _number(key: HourKey, text: str, below: int) -> int:
    return int.from_bytes(_digest(key, text)[:8]) % below
