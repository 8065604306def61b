"""Adds users to an organization and removes them, for a directory. The changes of one organization run one after the other."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Generic, TypeVar

from core.domain.errors import TeamLimitExceeded
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import (
    HeldUser,
    ListingDirectory,
    ProvisionedFate,
    ReasonForLeaving,
    user_joined,
    user_left,
)
from core.domain.identifiers import MembershipId, OrganizationId
from core.domain.identity.accounts import Account
from core.domain.record.events import Actor, Event
from core.domain.tenancy.invitations import revoked
from core.frozen import Frozen
from core.usecases.identity.account_endings import end_access
from ports.federation.scim import Capacity
from ports.jobs import Turns
from ports.system import Ids
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The directory may know this many people, active and inactive, for each member that the organization may have.
_KNOWN_FOR_EACH_MEMBER: Final = 2


Directory = TypeVar("Directory", bound=ListingDirectory)


class Enrolment(Frozen, Generic[Directory]):
    """Works within one unit of work, which locks the organization and the people."""

    uow: UnitOfWork
    ids: Ids
    holder: Directory
    actor: Actor
    now: datetime

    async def enter(self, capacity: Capacity, people: Sequence[HeldUser]) -> Sequence[Event]:
        """Adds people in the role member, and activates accounts that the directory itself has deactivated, or another one, if nobody knows
        the address. What others have done with an account stays, and no answer tells it. Raises `TeamLimitExceeded`.
        """
        require_room(capacity, len(people))
        members = {held.user.id: MembershipId(self.ids.new()) for held in people}
        await self.uow.provisioned_users.enter(self.holder.organization, members, self.now)
        organization = self.holder.organization
        return [user_joined(held.user.id, fate_of_joining(held.account, organization), self.holder, self.actor) for held in people]

    async def leave(self, people: Sequence[HeldUser], why: ReasonForLeaving, *, whatever_they_may: bool = False) -> Sequence[Event]:
        """Removes people from the organization. Their invitations and their sessions in the organization end as well. Nobody can sign in
        any more to an account that belongs to the directory. Raises `Forbidden` for people who may do more than a member, unless an owner
        has said so.
        """
        for held in people:
            if not whatever_they_may:
                held.require_ordinary()
        organization, users = self.holder.organization, [held.user.id for held in people]
        cancelled = await self.uow.invitations.cancel_to(organization, users, self.now)
        own = [held.user.id for held in people if held.is_own]
        for user in own:
            await end_access(self.uow, user, self.now)
        if own:
            await self.uow.provisioned_users.deactivate_accounts(organization, own, self.now)
        await self.uow.provisioned_users.leave(organization, users, self.now, deactivated=why is ReasonForLeaving.DEACTIVATED)
        return [
            *(revoked(one, self.actor) for one in cancelled),
            *(user_left(held, why, _ended(held), self.holder, self.actor) for held in people),
        ]


def require_room(capacity: Capacity, more: int) -> None:
    """Raises `TeamLimitExceeded`."""
    if more > 0 and capacity.members + more > capacity.limit.max_users:
        raise TeamLimitExceeded


def require_place(known: int, capacity: Capacity) -> None:
    """Requires room for one more person whom the directory knows. The limit counts inactive people too, because they cost as much as
    members do. Raises `TeamLimitExceeded`.
    """
    most = _KNOWN_FOR_EACH_MEMBER * capacity.limit.max_users
    if known >= most:
        raise TeamLimitExceeded(f"The directory has reached its limit of {most} users, active and inactive together: delete some first")


def fate_of_joining(account: Account, organization: OrganizationId) -> ProvisionedFate:
    return ProvisionedFate.ACTIVATED if account.is_switched_off_by(organization) else ProvisionedFate.KEPT


def _ended(held: HeldUser) -> ProvisionedFate:
    return ProvisionedFate.DEACTIVATED if held.is_own else ProvisionedFate.KEPT


class Changes(Frozen):
    """Each change locks its organization's row, so the changes of an organization wait for each other in any case. Here the changes of one
    process wait without a database connection. So other requests have connections while a directory imports its people.
    """

    unit_of_work: UnitOfWorkFactory
    turns: Turns

    @asynccontextmanager
    async def one(self, holder: ScimHolder) -> AsyncIterator[UnitOfWork]:
        """Raises `Overloaded` when too many changes wait, or one waits too long."""
        async with self.turns.take(holder.organization), self.unit_of_work() as uow:
            yield uow
