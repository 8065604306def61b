"""Organizations as their people see them: founded, listed, renamed, and deleted by their owner."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from core.domain.accounts import Account
from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized
from core.domain.events import Actor
from core.domain.identifiers import MembershipId, OrganizationId, UserId
from core.domain.members import Member, Membership, session_opened
from core.domain.organizations import (
    MOST_OWNED,
    MOST_WAITING,
    Organization,
    OrganizationOverview,
    OrganizationStatus,
    organization_created,
    organization_deleted,
    organization_name,
    organization_renamed,
    organization_slug,
    purge_job,
)
from core.domain.roles import BuiltInRole
from core.domain.sessions import Caller, Context, TokenPair
from core.domain.tiers import FREE
from core.usecases.sessions import Sessions
from ports.clock import Clock
from ports.ids import Ids
from ports.organizations import OrganizationLookup
from ports.unit_of_work import UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class Founded:
    """A new organization, its owner, and tokens for it."""

    organization: Organization
    owner: Account
    membership: Membership
    tokens: TokenPair


class Organizations:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: OrganizationLookup,
        sessions: Sessions,
        *,
        auto_approve: bool,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """With `auto_approve` nobody has to approve of a new organization."""
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._sessions = sessions
        self._auto_approve = auto_approve
        self._clock = clock
        self._ids = ids

    async def found(self, caller: Caller, slug: str, name: str, actor: Actor) -> Founded:
        """The caller becomes the owner, and is signed in to it with the device that they come with. Raises `BadRequest` for a slug or name
        that cannot be had and when the caller has too many, in all or waiting for approval, `Conflict` when the slug is taken,
        `Unauthorized`.
        """
        organization = self._new(caller.user, organization_slug(slug), organization_name(name))
        async with self._unit_of_work() as unit:
            opener = await unit.sessions.hold_opener(caller.session, caller.user)
            if opener is None:
                raise Unauthorized("The session has ended")
            added = await unit.organizations.add(organization)
            if added is None:
                raise Conflict("slug: another organization has it")
            if not organization.is_active and added.waiting >= MOST_WAITING:
                raise BadRequest(f"{MOST_WAITING} of your organizations wait for approval: another one has to wait for these")
            if added.owned >= MOST_OWNED:
                raise BadRequest(f"You own {MOST_OWNED} organizations: nobody may found more")
            owner = Membership(
                MembershipId(self._ids.new()), organization.id, caller.user, BuiltInRole.OWNER.value, organization.created_at
            )
            await unit.members.add(owner)
            opened = await self._sessions.open(
                unit,
                opener.account,
                device=caller.device,
                authenticated_by=caller.authentication_methods,
                context=Context(organization.id, organization.slug),
                until=opener.ends_at,
            )
            await unit.record_all([organization_created(organization, actor), session_opened(owner, opened.session.id, actor)])
            await unit.commit()
        return Founded(organization, opener.account, owner, await self._sessions.tokens(opened))

    async def list(self, user: UserId) -> Sequence[OrganizationOverview]:
        """Those that this person is a member of, by name, whatever their state; `MOST_LISTED` at most."""
        return await self._lookup.list(user)

    async def get(self, member: Member) -> OrganizationOverview:
        return await self._overview(member)

    async def rename(self, member: Member, name: str, actor: Actor) -> OrganizationOverview:
        """The slug stays: it is in tokens, addresses and configurations elsewhere. Raises `BadRequest`, `NotFound`."""
        name = organization_name(name)
        async with self._unit_of_work() as unit:
            held = await unit.organizations.hold(member.organization)
            if held is None:
                raise NotFound(_UNKNOWN)
            organization = held.organization
            if organization.name != name:
                await unit.organizations.save(replace(organization, name=name, updated_at=self._clock.now()))
                await unit.record(organization_renamed(organization, name, actor))
                await unit.commit()
        return await self._overview(member)

    async def delete(self, member: Member, actor: Actor) -> None:
        """Gone from every answer when this returns; its data follows in batches. Raises `Forbidden` for whoever is not, or no longer, its
        owner, and `NotFound`.
        """
        async with self._unit_of_work() as unit:
            held = await unit.organizations.hold(member.organization)
            if held is None:
                raise NotFound(_UNKNOWN)
            # Nothing brings it back, so it must not be one who has just handed it over.
            known = await unit.members.find(member.organization, member.user)
            if known is None or known.membership.role != BuiltInRole.OWNER:
                raise Forbidden
            now = self._clock.now()
            await unit.organizations.delete(member.organization, now)
            await unit.jobs.add(purge_job(member.organization))
            for event in organization_deleted(held.organization, actor):
                await unit.record(event)
            await unit.commit()

    def _new(self, owner: UserId, slug: str, name: str) -> Organization:
        now = self._clock.now()
        return Organization(
            id=OrganizationId(self._ids.new()),
            slug=slug,
            name=name,
            status=OrganizationStatus.ACTIVE if self._auto_approve else OrganizationStatus.PENDING,
            tier=FREE,
            owner=owner,
            approved_at=now if self._auto_approve else None,
            created_at=now,
            updated_at=now,
        )

    async def _overview(self, member: Member) -> OrganizationOverview:
        overview = await self._lookup.get(member.organization, member.user)
        if overview is None:
            # Deleted, or left, since the request came in.
            raise NotFound(_UNKNOWN)
        return overview


_UNKNOWN: Final = "There is no such organization"
