"""Budgets of mails: how many mails strangers may ask for in an hour, by the network that they ask from, the mail domain and the
organization that they name, and in the whole installation. Every request counts, whether or not the address has an account.

The narrowest budget is asked first, and a request that one of them refuses counts in none. So whoever fills the budget of a domain needs
networks for it. What does not go out now waits for a place in the next hours, and the first mail of a mailbox goes out from a reserve.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Self
from uuid import UUID

from core.domain.email import Email, mail_domain
from core.domain.errors import BadRequest, RateLimited
from core.domain.identifiers import OrganizationId
from core.domain.identity.guards.puzzles import Puzzle
from core.domain.identity.guards.traffic import FIRST_BITS, UNKNOWN_NETWORK, WIDER, network_of, wider_network_of
from core.domain.identity.registering.free_mail import FREE_MAIL
from core.domain.json import timestamp
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

HOUR: Final = timedelta(hours=1)
# What waits goes out within a day, or not at all: then nobody waits for it any more.
MOST_HOURS: Final = 24
# An exception is for a day on which many people register, and ends by itself.
LONGEST_EXCEPTION: Final = timedelta(days=7)
MOST_EXCEPTIONS: Final = 100
MOST_LISTED: Final = 100
# One mail of each mailbox in an hour may come from the reserve.
FIRST_OF_HOUR: Final = RateLimit("first_mail_of_hour", burst=1, seconds_per_request=3600)
# What a form solves where a budget is over. Whoever had to solve as much for the traffic alone need not do it twice.
BUDGET_BITS: Final = FIRST_BITS
# The mails of an hour go out within its first minute, the oldest first.
_SPREAD: Final = 60


class BudgetScope(StrEnum):
    """What a budget is of, the narrowest first."""

    NETWORK = "network"
    MAIL_DOMAIN = "mail_domain"
    ORGANIZATION = "organization"
    INSTALLATION = "installation"


class BudgetLane(StrEnum):
    """Each lane counts for itself, in budgets of the same sizes."""

    OPEN = "open"
    """What everybody asks for."""
    RESERVE = "reserve"
    """The first mail of the hour to the mailbox of an account."""
    SOLVED = "solved"
    """What somebody has solved a puzzle for."""


class BudgetSizes(Frozen):
    """How many mails an hour has. 0: no budget."""

    network: int
    mail_domain: int
    organization: int
    installation: int

    def of(self, scope: BudgetScope) -> int:
        match scope:
            case BudgetScope.NETWORK:
                return self.network
            case BudgetScope.MAIL_DOMAIN:
                return self.mail_domain
            case BudgetScope.ORGANIZATION:
                return self.organization
            case _:
                return self.installation


class Budget(Frozen):
    """One budget that a mail counts in. The key of an organization is its slug here, and its id in the table."""

    scope: BudgetScope
    key: str
    size: int


class AskedFrom(Frozen):
    """Where a request for a mail comes from, and whom it names."""

    network: str
    email: Email
    organization: str = ""

    def budgets(self, sizes: BudgetSizes) -> Sequence[Budget]:
        """The narrowest first. The providers of free mail have no budget: their people have nothing else in common. An IPv6 /48 has one,
        too: whoever has a /48 has 256 networks.
        """
        domain = mail_domain(self.email)
        places = (
            (BudgetScope.NETWORK, self.network, 1),
            (BudgetScope.NETWORK, wider_network_of(self.network), WIDER),
            (BudgetScope.MAIL_DOMAIN, "" if domain in FREE_MAIL else domain, 1),
            (BudgetScope.ORGANIZATION, self.organization, 1),
            (BudgetScope.INSTALLATION, "", 1),
        )
        return [
            Budget(scope, key, times * sizes.of(scope))
            for scope, key, times in places
            if sizes.of(scope) and (key or scope is BudgetScope.INSTALLATION)
        ]


class MailsHeldBack(RateLimited):
    """A budget is used up, and the request has come to nothing. The same for every address."""

    puzzle: Puzzle | None = None
    """For a program: whoever solves it may ask once more."""

    def with_puzzle(self, puzzle: Puzzle | None) -> Self:
        self.puzzle = puzzle
        return self


class BudgetVerdict(StrEnum):
    GO = "go"
    WAIT = "wait"
    REFUSE = "refuse"


class Counted(Frozen):
    """What became of a request. `over` is the narrowest budget that is used up, `hours` how many hours the mail waits: more than
    `MOST_HOURS` when no hour of a day has room.
    """

    verdict: BudgetVerdict
    over: BudgetScope | None = None
    hours: int = 0


class BudgetStanding(Frozen, kw_only=True):
    """A budget that has held something back, or that somebody has lifted, as an operator sees it."""

    id: UUID
    scope: BudgetScope
    key: str
    name: str
    """What people call it: the organization's name, otherwise as the key."""
    size: int
    taken: int
    waiting: int
    held: int
    held_since: datetime | None
    held_at: datetime | None
    exempt_until: datetime | None


def untouched(organization: OrganizationId, size: int) -> BudgetStanding:
    """The budget of an organization that nothing has counted in."""
    return BudgetStanding(
        id=organization,
        scope=BudgetScope.ORGANIZATION,
        key=str(organization),
        name=str(organization),
        size=size,
        taken=0,
        waiting=0,
        held=0,
        held_since=None,
        held_at=None,
        exempt_until=None,
    )


def hour_of(now: datetime) -> datetime:
    """The beginning of the hour, in every time zone the same."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def held_until(now: datetime, hours: int) -> datetime:
    """When a mail goes out that waits so many hours. Those that were asked for earlier go earlier."""
    hour = hour_of(now)
    return hour + hours * HOUR + (now - hour) * (_SPREAD / HOUR.total_seconds())


def comes_from_reserve_alone(until: datetime, asked_at: datetime) -> bool:
    """Whether a mail that waits until then has no hour of its own, since its domain's or its organization's are used up for a day."""
    return until >= hour_of(asked_at) + (MOST_HOURS + 1) * HOUR


def held_back(now: datetime) -> MailsHeldBack:
    wait = (hour_of(now) + HOUR - now).total_seconds()
    return MailsHeldBack("Too many mails were asked for from here: try again in the next hour", retry_after=wait)


def budget_key(scope: BudgetScope, text: str) -> str:
    """The key of a budget that somebody has written. Raises `BadRequest` for one that names nothing."""
    text = text.strip()
    if scope is BudgetScope.INSTALLATION:
        return ""
    if scope is BudgetScope.NETWORK:
        address, _, length = text.partition("/")
        network = network_of(address)
        if length == "48":
            network = wider_network_of(network) or network
        if network == UNKNOWN_NETWORK:
            raise BadRequest("key: name a network by an address in it, such as 203.0.113.7", words="budget_network")
        return network
    if scope is BudgetScope.ORGANIZATION:
        try:
            return str(UUID(text))
        except ValueError:
            raise BadRequest("key: name the organization by its id", words="budget_organization") from None
    domain = mail_domain(Email(f"somebody@{text}"))
    if "." not in domain.strip(".") or " " in domain:
        raise BadRequest("key: name a mail domain, such as acme.example", words="budget_domain")
    if domain in FREE_MAIL:
        raise BadRequest("key: anybody can have an address there, so this domain has no budget", words="budget_free_mail")
    return domain


def require_end(until: datetime, now: datetime) -> None:
    """Raises `BadRequest` for an exception that is over already, or lasts too long."""
    if until <= now:
        raise BadRequest("until: this moment is past", words="budget_end_past")
    if until > now + LONGEST_EXCEPTION:
        raise BadRequest(
            f"until: at most {LONGEST_EXCEPTION.days} days from now", words="budget_end_far", values={"days": LONGEST_EXCEPTION.days}
        )


def budget_lifted(standing: BudgetStanding, actor: Actor) -> Event:
    return _event("platform.mail_budget.lifted", standing, actor)


def budget_restored(standing: BudgetStanding, actor: Actor) -> Event:
    return _event("platform.mail_budget.restored", standing, actor)


def _event(name: str, standing: BudgetStanding, actor: Actor) -> Event:
    until = None if standing.exempt_until is None else timestamp(standing.exempt_until)
    return Event(
        name,
        actor,
        Target("mail_budget", str(standing.id)),
        details={"scope": standing.scope.value, "key": standing.key, "until": until},
    )
