"""What unauthenticated visitors may do: register an account, and request mails within the email rate limits."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Self
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, RateLimited, Refusal
from core.domain.formats import timestamp
from core.domain.identifiers import OrganizationId
from core.domain.identity.guards.puzzles import Puzzle
from core.domain.identity.guards.traffic import FIRST_BITS, UNKNOWN_NETWORK, WIDER, network_of, wider_network_of
from core.domain.mail import Email, mail_domain
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

# Mail domains where anyone can have a mailbox. Their owners do not use Postern to tell their customers where to sign in, so anyone who can
# publish a verification there has found a security hole of the domain. The list need not be complete: the verification is the main
# protection.
_DOMAINS: Final = """
    126.com 163.com aim.com aol.com att.net bluewin.ch bol.com.br btinternet.com comcast.net duck.com email.it fastmail.com fastmail.fm
    freemail.hu freenet.de gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.fr gmx.net googlemail.com hey.com hotmail.co.uk hotmail.com
    hotmail.de hotmail.es hotmail.fr hotmail.it hushmail.com icloud.com inbox.lv inbox.ru interia.pl laposte.net libero.it list.ru
    live.co.uk live.com live.fr live.nl mac.com mail.com mail.de mail.ru mailbox.org me.com msn.com naver.com o2.pl onet.pl orange.fr
    outlook.com outlook.de outlook.es outlook.fr posteo.de posteo.net proton.me protonmail.ch protonmail.com qq.com rambler.ru
    rediffmail.com riseup.net rocketmail.com sapo.pt seznam.cz sfr.fr sina.com t-online.de terra.com.br tuta.com tutanota.com
    tutanota.de ukr.net uol.com.br virgilio.it wanadoo.fr web.de wp.pl yahoo.ca yahoo.co.in yahoo.co.jp yahoo.co.uk yahoo.com
    yahoo.com.br yahoo.de yahoo.es yahoo.fr yahoo.it yandex.com yandex.ru yeah.net ymail.com zoho.com
"""
FREE_MAIL: Final = frozenset(_DOMAINS.split())


BUDGET_HOUR: Final = timedelta(hours=1)
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
    """The scope of an email rate limit, the narrowest first."""

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
    """The email rate limits: how many mails unauthenticated visitors may request in an hour, by the network that they come from, by the
    mail domain and the organization that they name, and in the whole installation. 0: no limit. Every request counts, whether or not the
    address has an account.

    The narrowest limit is asked first, and a request that one of them refuses counts in none. So whoever exhausts the limit of a domain
    needs many networks. What exceeds a limit waits for a place in the next hours, and the first mail of a mailbox goes out from a reserve.
    """

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
    return hour + hours * BUDGET_HOUR + (now - hour) * (_SPREAD / BUDGET_HOUR.total_seconds())


def comes_from_reserve_alone(until: datetime, asked_at: datetime) -> bool:
    """Whether a mail that waits until then has no hour of its own, since its domain's or its organization's are used up for a day."""
    return until >= hour_of(asked_at) + (MOST_HOURS + 1) * BUDGET_HOUR


def held_back(now: datetime) -> MailsHeldBack:
    wait = (hour_of(now) + BUDGET_HOUR - now).total_seconds()
    return MailsHeldBack("Too many emails were requested from here: try again in the next hour", retry_after=wait)


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
            raise BadRequest("key: specify a network by an IP address in it, such as 203.0.113.7", words="budget_network")
        return network
    if scope is BudgetScope.ORGANIZATION:
        try:
            return str(UUID(text))
        except ValueError:
            raise BadRequest("key: name the organization by its id", words="budget_organization") from None
    domain = mail_domain(Email(f"somebody@{text}"))
    if "." not in domain.strip(".") or " " in domain:
        raise BadRequest("key: specify an email domain, such as acme.example", words="budget_domain")
    if domain in FREE_MAIL:
        raise BadRequest("key: anyone can have an email address in this domain, so it has no email rate limit", words="budget_free_mail")
    return domain


def require_end(until: datetime, now: datetime) -> None:
    """Raises `BadRequest` for an exception that is over already, or lasts too long."""
    if until <= now:
        raise BadRequest("until: this time is in the past", words="budget_end_past")
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


_DOMAIN: Final = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])")


class RegistrationPolicy(StrEnum):
    """Who can register on the organization's pages."""

    ANYBODY = "anybody"
    EXCEPT_DOMAINS = "except_domains"
    """Anybody whose address is neither in one of the domains nor in a throw-away one."""
    DOMAINS = "domains"
    """Addresses in one of the domains."""
    INVITATION = "invitation"
    """Whoever opens the link of an invitation, or comes from a provider with an address that is invited."""
    CLOSED = "closed"
    """Whoever opens the link of an invitation, and nobody else."""


# Here a page shows no form: no address would do.
WITHOUT_FORM: Final = frozenset({RegistrationPolicy.INVITATION, RegistrationPolicy.CLOSED})

# The words of a refusal of the address, beside those of the password.
REFUSED_DOMAIN: Final = "registration_domain"


class RegistrationClosed(Forbidden):
    text = "Registration is closed. If you are invited, open the link of the invitation"


class RegistrationRule(Frozen, kw_only=True):
    """Who may register on the pages of the installation, or on those of an organization. Who may sign in with an account is another
    question, and so is whom an administrator, a directory or an application creates an account for.
    """

    policy: RegistrationPolicy = RegistrationPolicy.ANYBODY
    domains: tuple[str, ...] = ()
    """Let in or refused, as the policy says; without meaning for the others."""

    def require_fitting(self) -> None:
        """Raises `BadRequest` for a rule that no address could fit."""
        if self.policy is RegistrationPolicy.DOMAINS and not self.domains:
            raise BadRequest("registration_domains: name at least one, or choose another policy", words="registration_no_domain")

    def refuses(self, email: Email, is_throwaway: Callable[[str], bool], *, invited: bool = False) -> bool:
        """`invited`: the address is proved, and an invitation to it waits. Only its link opens what is closed. A domain that lets addresses
        in does not let in those of the domains below it, where others may be the masters; a domain that is refused takes those along.
        """
        if invited:
            return self.policy is RegistrationPolicy.CLOSED
        match self.policy:
            case RegistrationPolicy.ANYBODY:
                return False
            case RegistrationPolicy.EXCEPT_DOMAINS:
                domain = mail_domain(email)
                return is_throwaway(domain) or any(one in self.domains for one in with_parents(domain))
            case RegistrationPolicy.DOMAINS:
                return email.domain not in self.domains
            case _:
                return True

    def require(self, email: Email, is_throwaway: Callable[[str], bool]) -> None:
        """Raises `RegistrationClosed` where nobody registers, and `BadRequest` for the address's domain."""
        if self.refuses(email, is_throwaway):
            raise self._refusal()

    def _refusal(self) -> Refusal:
        """The refusal does not depend on the address beyond its domain, so it tells nobody who has an account."""
        if self.policy in WITHOUT_FORM:
            return RegistrationClosed(words="registration_closed", detail=f"registration: {self.policy}")
        message = "email: addresses of this email domain cannot be registered here"
        return BadRequest(message, words=REFUSED_DOMAIN, detail=f"registration: {self.policy}")


def closing(rules: Iterable[RegistrationRule]) -> RegistrationPolicy | None:
    """The first policy of these rules under which nobody registers, whatever the address. None where an address may do."""
    return next((rule.policy for rule in rules if rule.policy in WITHOUT_FORM), None)


class Newcomers(Frozen, kw_only=True):
    """Who may come newly to where a page leads: what the rules of its organization and of its application say of people in general."""

    rule: RegistrationRule | None = None
    """The organization's own. None where the page belongs to none."""
    get_in: bool = True
    """The application lets somebody in who has an account and nothing else, or the organization lets people of a domain that it has proved
    join by themselves, or ask.
    """


ANYBODY_NEW: Final = Newcomers()


def listed_domain(text: str) -> str:
    """A domain of a list, in the form in which addresses compare. Empty when it is none."""
    if _DOMAIN.fullmatch(text):
        return text  # as in a list of ours: ten thousand lines are read at each start
    plain = text.strip().rstrip(".")
    domain = plain.lower() if plain.isascii() else mail_domain(Email(f"somebody@{plain}"))
    return domain if _DOMAIN.fullmatch(domain) else ""


def with_parents(domain: str) -> Sequence[str]:
    """The domain, and the domains above it, without the last label alone."""
    labels = domain.split(".")
    return [".".join(labels[start:]) for start in range(max(len(labels) - 1, 1))]
