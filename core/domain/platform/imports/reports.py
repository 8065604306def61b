"""What an import tells of each record, and of all together."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.domain.identifiers import UserId
from core.frozen import Frozen


class Outcome(StrEnum):
    TAKEN = "taken"
    """The person has a new account."""
    MERGED = "merged"
    """An account had the address. It is listed in the organization, and nothing else of it has changed."""
    KNOWN = "known"
    """An import has taken the person before."""
    LEFT_OUT = "left out"


class Brought(StrEnum):
    """What people bring with them."""

    VERIFIED = "verified addresses"
    PASSWORD = "passwords"  # noqa: S105 - a word for the report
    WRAPPED = "fast password hashes, wrapped"
    SECOND_FACTOR = "authenticator apps"
    PASSKEY = "passkeys"
    IDENTITY = "connected accounts"
    USERNAME = "user names"
    FIELD = "fields"
    MEMBERSHIP = "memberships"
    TEAM = "members of teams"
    ROLE = "roles of applications"


NO_PARTS: Final[Mapping[Brought, int]] = MappingProxyType({})


class ReportLine(Frozen):
    """`account` is the account here. A plan makes none, so it names none."""

    place: str
    id: str
    email: str
    outcome: Outcome
    account: UserId | None = None
    notes: tuple[str, ...] = ()


# As many reasons as somebody reads. Files of others decide how many different ones there are.
_MOST_REASONS: Final = 200
_OTHERS: Final = "other reasons"


class Tally:
    """The sums of a report."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.parts: Counter[Brought] = Counter()
        self.left_out: Counter[str] = Counter()
        """Records by the reason why they were left out."""
        self.stayed_behind: Counter[str] = Counter()
        """People by what stayed behind of them."""

    def add(self, line: ReportLine, parts: Mapping[Brought, int]) -> None:
        self.outcomes[line.outcome] += 1
        self.parts.update(parts)
        reasons = self.left_out if line.outcome is Outcome.LEFT_OUT else self.stayed_behind
        for note in line.notes:
            reasons[note if note in reasons or len(reasons) < _MOST_REASONS else _OTHERS] += 1
