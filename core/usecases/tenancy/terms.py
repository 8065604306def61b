"""An organization's owner, or a platform owner for the installation, says which terms people are asked to accept."""

from collections.abc import Sequence

from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId, TermsId
from core.domain.identity.callers import Caller
from core.domain.identity.terms import KeptTerms, TermsChange, TermsVersion, in_force, terms_set, terms_withdrawn
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import find_members_for_update, lock_platform_owners, require_owner
from ports.identity.accounts import TermsStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class TermsVersions(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: TermsStore
    system: System

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptTerms]:
        """All versions, the newest first. None: the installation's."""
        return await self.lookup.list(organization)

    async def set(self, member: Member, change: TermsChange, actor: Actor) -> TermsVersion:
        """Ask everybody who signs in to the organization. Who has accepted an earlier version is asked again. Raises `BadRequest`, and
        `Forbidden` when the caller is no longer the owner.
        """
        async with self.unit_of_work() as uow:
            await self._hold(uow, member)
            return await self._set(uow, member.organization, change, actor)

    async def set_for_installation(self, owner: Caller, change: TermsChange, actor: Actor) -> TermsVersion:
        """Ask everybody. Raises `BadRequest`, and `Forbidden` when the caller is no longer a platform owner."""
        async with self.unit_of_work() as uow:
            await lock_platform_owners(uow, owner)
            return await self._set(uow, None, change, actor)

    async def withdraw(self, member: Member, actor: Actor) -> None:
        """Ask nobody any more. What people have accepted stays. Raises `NotFound` when nobody is asked, and `Forbidden`."""
        async with self.unit_of_work() as uow:
            await self._hold(uow, member)
            await self._withdraw(uow, member.organization, actor)

    async def withdraw_for_installation(self, owner: Caller, actor: Actor) -> None:
        """As `withdraw`, for everybody."""
        async with self.unit_of_work() as uow:
            await lock_platform_owners(uow, owner)
            await self._withdraw(uow, None, actor)

    async def _hold(self, uow: UnitOfWork, member: Member) -> None:
        acting, _ = await find_members_for_update(uow, member)
        await require_owner(uow, acting, self.system.clock.now())

    async def _set(self, uow: UnitOfWork, organization: OrganizationId | None, change: TermsChange, actor: Actor) -> TermsVersion:
        before, now = await uow.terms.find_for_update(organization), self.system.clock.now()
        change, standing = change.checked(before, now), in_force(before)
        if standing is not None and standing.version == change.version:
            after = replace(standing, due_at=change.due_at)
            if after == standing:
                return standing
        else:
            after = TermsVersion(
                id=TermsId(self.system.ids.new()),
                organization=organization,
                version=change.version,
                address=change.address,
                due_at=change.due_at,
                set_at=now,
                set_by=actor.user,
            )
        await uow.terms.set(after)
        await uow.record(terms_set(standing, after, actor))
        await uow.commit()
        return after

    async def _withdraw(self, uow: UnitOfWork, organization: OrganizationId | None, actor: Actor) -> None:
        await uow.terms.find_for_update(organization)
        ended = await uow.terms.withdraw(organization, self.system.clock.now())
        if ended is None:
            raise NotFound("Nobody is asked to accept terms", words="terms_unknown")
        await uow.record(terms_withdrawn(ended, actor))
        await uow.commit()
