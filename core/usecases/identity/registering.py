"""Enforces who may register, and limits how many emails unauthenticated requests can cause."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import Conflict, found
from core.domain.identifiers import OrganizationId
from core.domain.identity.guards.traffic import network_of
from core.domain.identity.registering import (
    ANYBODY_NEW,
    FIRST_OF_HOUR,
    MOST_EXCEPTIONS,
    MOST_LISTED,
    AskedFrom,
    Budget,
    BudgetLane,
    BudgetScope,
    BudgetSizes,
    BudgetStanding,
    BudgetVerdict,
    Newcomers,
    RegistrationPolicy,
    RegistrationRule,
    budget_key,
    budget_lifted,
    budget_restored,
    closing,
    held_back,
    held_until,
    require_end,
    untouched,
)
from core.domain.identity.sign_in import account_key
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.identity.accounts import MailBudgetStore, RegistrationRules, ThrowawayDomains
from ports.metrics import Metrics
from ports.system import Clock, SharedBuckets
from ports.unit_of_work import UnitOfWorkFactory

_A_DAY: Final = timedelta(days=1)


class MailBudgets(Frozen):
    """Counts requests for mails against the email rate limits, shows which limits hold mail back, and lifts a limit for a time.

    Whoever lists or lifts budgets is a platform owner, as the caller has checked.
    """

    unit_of_work: UnitOfWorkFactory
    store: MailBudgetStore
    buckets: SharedBuckets
    sizes: BudgetSizes
    metrics: Metrics
    clock: Clock

    async def count(self, asked: AskedFrom, *, may_wait: bool, solved: bool = False) -> datetime | None:
        """Counts a request for a mail, whether or not the address has an account. Returns None when the mail may go out at once, and
        otherwise the moment until which it waits. A request that has solved a puzzle counts first in budgets that only such requests use,
        and only if those are used up as everybody's. Raises `RateLimited` when a budget is used up and the mail cannot wait.
        """
        budgets, now = asked.budgets(self.sizes), self.clock.now()
        if not budgets or (solved and await self._goes_by_puzzle(budgets, now)):
            return None
        counted = await self.store.count(BudgetLane.OPEN, budgets, now, may_wait=may_wait)
        if counted.over is None:
            return None
        if counted.verdict is BudgetVerdict.REFUSE:
            self.metrics.mail_held_back(counted.over.value, "refused")
            raise held_back(now)
        self.metrics.mail_held_back(counted.over.value, "waits")
        return held_until(now, counted.hours)

    async def _goes_by_puzzle(self, budgets: Sequence[Budget], now: datetime) -> bool:
        return (await self.store.count(BudgetLane.SOLVED, budgets, now, may_wait=False)).verdict is BudgetVerdict.GO

    async def take_from_reserve(self, asked: AskedFrom, *, known: bool) -> bool:
        """Counts a mail that waits in the reserve. True when the mail may go out at once: it is the first of this hour to the mailbox of an
        account, and the reserve of each budget has room. The reserve is for people whose budgets a stranger has used up. So a request for
        an address without an account (not `known`) takes neither the mailbox's turn nor the reserve of the mail domain. The reserve of the
        request's own network counts such a request like any other: what is left there would otherwise tell which addresses have accounts.
        """
        mailbox = account_key(asked.email)
        if await self.buckets.take(FIRST_OF_HOUR, mailbox if known else f"nobody:{mailbox}") > 0:
            return False
        budgets = asked.budgets(self.sizes)
        counted = await self.store.count(BudgetLane.RESERVE, budgets, self.clock.now(), may_wait=False, known=known)
        return known and counted.verdict is BudgetVerdict.GO

    async def held_today(self) -> Sequence[BudgetStanding]:
        """The budgets that have held something back in the last day, and those that somebody has lifted."""
        now = self.clock.now()
        return await self.store.find_all(now - _A_DAY, now, MOST_LISTED)

    async def of_organization(self, organization: OrganizationId) -> BudgetStanding:
        size = self.sizes.organization
        standing = await self.store.of_organization(organization, self.clock.now()) if size else None
        return untouched(organization, size) if standing is None else replace(standing, size=size)

    async def lift(self, scope: BudgetScope, key: str, until: datetime, actor: Actor) -> BudgetStanding:
        """Lifts a budget until a moment. Raises `BadRequest` for the key and the moment, and `Conflict` when so many are lifted already, or
        the organization does not exist.
        """
        now = self.clock.now()
        key = budget_key(scope, key)
        require_end(until, now)
        async with self.unit_of_work() as uow:
            standing = await uow.mail_budgets.lift(Budget(scope, key, self.sizes.of(scope)), until, now, MOST_EXCEPTIONS)
            if standing is None:
                raise Conflict(
                    f"Organization not found, or {MOST_EXCEPTIONS} email rate limits are already lifted", words="budget_not_lifted"
                )
            await uow.record(budget_lifted(standing, actor))
            await uow.commit()
        return standing

    async def restore(self, budget: UUID, actor: Actor) -> None:
        """Ends an exception. Raises `NotFound` when there is none."""
        async with self.unit_of_work() as uow:
            standing = found(await uow.mail_budgets.restore(budget, self.clock.now()), "There is no such exception")
            await uow.record(budget_restored(standing, actor))
            await uow.commit()


def asked_from(address: str | None, email: Email, organization: str) -> AskedFrom:
    """`organization` is the slug that the request names."""
    return AskedFrom(network_of(address), email, organization)


class Registrations(Frozen):
    """Enforces the registration policies of the installation and of the organization whose page the user is on. Both must allow the
    registration.
    """

    installation: RegistrationRule
    throwaway: ThrowawayDomains
    lookup: RegistrationRules

    def leads_on(self, newcomers: Newcomers = ANYBODY_NEW) -> bool:
        """Whether a sign-in page has a link to the registration: the rules let somebody register, whose account then leads to where the
        page does. It asks nothing about an address, so it is the same for all.
        """
        rules = (self.installation,) if newcomers.rule is None else (self.installation, newcomers.rule)
        return closing(rules) is None and newcomers.get_in

    async def require(self, email: Email, organization: str) -> None:
        """`organization` is the slug that the request names, or empty. Comes before anything that depends on the address, so that known and
        unknown addresses are refused alike. Raises `RegistrationClosed` where nobody registers, and `BadRequest` for the address's domain.
        """
        for rule in await self._rules(organization):
            rule.require(email, self.throwaway.knows)

    async def without_form(self, organization: str) -> RegistrationPolicy | None:
        """The policy under which a page has no form, since no address would do. None where it has one."""
        return closing(await self._rules(organization))

    async def refuses_arrival(self, email: Email, organization: OrganizationId | None, vouching: OrganizationId | None) -> bool:
        """Whether a provider's first word about an address makes no account, on a page of that organization. An organization that vouches
        for the address, by its own provider or by its proved domain, gives the account itself, as its directory does: neither its rule nor
        the installation's counts. On another organization's pages, the rule of that one does.
        """
        gives_it_itself = vouching is not None and organization in (None, vouching)
        if gives_it_itself or (organization is None and self.installation.policy is RegistrationPolicy.ANYBODY):
            return False
        arrival = await self.lookup.of_arrival(organization, email)
        refused_here = arrival.rule is not None and arrival.rule.refuses(email, self.throwaway.knows, invited=arrival.invited_here)
        refused = vouching is None and self.installation.refuses(email, self.throwaway.knows, invited=arrival.invited)
        return refused or refused_here

    async def _rules(self, organization: str) -> Sequence[RegistrationRule]:
        """The installation's first. What it closes needs no look-up."""
        if not organization or closing((self.installation,)) is not None:
            return (self.installation,)
        theirs = await self.lookup.find(organization)
        return (self.installation,) if theirs is None else (self.installation, theirs)
