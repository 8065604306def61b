"""End users: an organization may read about the people who use its services, and may end their sessions in these services."""

from contextlib import nullcontext
from typing import Final

from core.domain.errors import BadRequest, NotFound, found
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.identity.locking.account_locks import LockedBy
from core.domain.pages import Listed, Page
from core.domain.record.events import Actor
from core.domain.services.end_users import (
    EndUser,
    EndUserDetail,
    LockedOut,
    is_dear,
    require_reachable,
    searched,
    sessions_in_services_ended,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability, require_no_more
from core.frozen import Frozen
from core.usecases.identity.account_access import end_user_keys
from core.usecases.identity.locking.account_locks import AccountLocks
from core.usecases.tenancy.rights import hold_members, require_capability
from ports.clock import Clock
from ports.services.end_users import EndUserStore
from ports.turns import Turns
from ports.unit_of_work import UnitOfWorkFactory


class EndUsers(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: EndUserStore
    locks: AccountLocks
    turns: Turns
    clock: Clock

    async def list(
        self, organization: OrganizationId, page: Page, *, search: str = "", service: ServiceId | None = None
    ) -> Listed[EndUser]:
        """Newest account first. Raises `BadRequest`, also for a page beyond what a search shows; `NotFound` when the organization has no
        such service; `Overloaded` when too many searches are under way.
        """
        wanted = searched(search)
        require_reachable(page, wanted)
        # Every member may search, and a search among many end users takes long. Turns limit concurrent searches, so that they do not use up
        # the database connections of other requests.
        async with self.turns.take(organization) if is_dear(page, wanted) else nullcontext():
            found = await self.lookup.list(organization, page, search=wanted, service=service)
        if found is None:
            raise NotFound("The organization has no such service")
        return found

    async def get(self, organization: OrganizationId, user: UserId) -> EndUserDetail:
        """Raises `NotFound` for a person who uses none of the organization's services."""
        return found(await self.lookup.find(organization, user), _UNKNOWN)

    async def end_sessions(self, organization: OrganizationId, user: UserId, actor: Actor, *, of_member: bool = False) -> int:
        """Sign the person out of the organization's services, from the person's next request on. Authorization codes and device codes that
        wait for a session there become invalid. Sessions elsewhere, and in the organization itself, stay. `of_member` ends those in the
        organization itself as well. May be repeated. Raises `NotFound`.
        """
        async with self.unit_of_work() as uow:
            # Lock the account against a concurrent exchange of a code: either the exchange has added its session already, or the exchange
            # waits and then finds the code gone.
            await uow.accounts.hold(user)
            ended = found(await uow.end_users.end_sessions(organization, user, of_member=of_member), _NO_MEMBER if of_member else _UNKNOWN)
            if ended:
                await uow.record(sessions_in_services_ended(organization, user, ended, actor))
            # Commit also when no session has ended: codes that were approved a moment ago have no session yet, and are removed too.
            await uow.commit()
        return ended

    async def lock(self, caller: Member, user: UserId, actor: Actor, *, of_member: bool = False) -> LockedOut:
        """Locks the account if the organization has made it and nobody else holds it. Of anybody else, ends what is the organization's own:
        the person's sessions and codes there, and their keys for its applications. May be repeated. Raises `NotFound`; `BadRequest` for the
        caller, and for a deactivated account; `Forbidden` when the person may do more in the organization than the caller.
        """
        if user == caller.person:
            raise BadRequest("Lock your own account on the pages of your account", words="lock_own")
        organization = caller.organization
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE if of_member else Capability.END_USERS_MANAGE)
            if user in known:
                require_no_more(known[user].capabilities, acting.capabilities)
            await uow.accounts.hold(user)
            account = (await uow.accounts.find_all([user])).get(user)
            if account is None:
                raise NotFound(_NO_MEMBER if of_member else _UNKNOWN)
            sessions = count = 0
            is_its_own = await uow.account_locks.is_the_makers(user, organization)
            if is_its_own:
                locked = await self.locks.lock_held(uow, account, LockedBy.ORGANIZATION, actor, organization=organization)
                sessions, count = locked.sessions, locked.key_count
            # The tie is looked at here, too: nothing has happened to a person whom the organization does not know.
            ended = found(await uow.end_users.end_sessions(organization, user, of_member=of_member), _NO_MEMBER if of_member else _UNKNOWN)
            if ended:
                await uow.record(sessions_in_services_ended(organization, user, ended, actor))
            keys = await end_user_keys(uow, user, self.clock.now(), actor, but=(), organization=organization)
            await uow.commit()
        return LockedOut(account_locked=is_its_own, sessions=sessions + ended, keys=count + len(keys))


_NO_MEMBER: Final = "The organization has no such member"
_UNKNOWN: Final = "The organization has no such end user"
