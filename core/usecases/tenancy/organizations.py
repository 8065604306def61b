"""Organizations for their members: founding, listing, renaming, and deletion by the owner."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized, found
from core.domain.identifiers import MembershipId, OrganizationId, SessionId, TierId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import NOT_A_MEMBER, Caller
from core.domain.identity.sessions import Context, TokenPair
from core.domain.identity.terms import require_accepted
from core.domain.mail import Email
from core.domain.record.events import Actor, Event
from core.domain.tenancy.members import Member, Membership, MembershipOrigin, session_opened
from core.domain.tenancy.organizations import (
    MOST_APPROVALS,
    MOST_OWNED,
    Organization,
    OrganizationOverview,
    OrganizationStatus,
    OrganizationUpdate,
    organization_created,
    organization_deleted,
    organization_metadata_changed,
    organization_name,
    organization_slug,
    organization_updated,
    purge_job,
    require_deletable,
)
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.domain.tenancy.sign_in_rules import require_second_factor
from core.domain.tenancy.tiers import FREE, largest
from core.frozen import Frozen, replace
from core.usecases.identity.sessions import Sessions
from core.usecases.tenancy.rights import find_members_for_update, require_owner, require_standing
from ports.identity.sessions import Opener
from ports.system import System
from ports.tenancy.organizations import OrganizationStore, Tiers
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Founded(Frozen):
    """A new organization, its owner, and tokens for it."""

    organization: Organization
    owner: Account
    membership: Membership
    tokens: TokenPair


class Organizations(Frozen):
    """`auto_approve`: a new organization needs no approval."""

    unit_of_work: UnitOfWorkFactory
    lookup: OrganizationStore
    tiers: Tiers
    sessions: Sessions
    auto_approve: bool
    system: System

    async def choose(self, caller: Caller, slug: str) -> None:
        """Choose the organization that the person manages in the browser session; an empty slug chooses none. Raises `Forbidden` when the
        person is not a member, and `SecondFactorRequired` when the organization requires a second factor that the person has not set up,
        and `TermsRequired` when the time to accept terms is over.
        """
        async with self.unit_of_work() as uow:
            chosen = await uow.browser_sessions.choose(caller.session, caller.user, slug)
            if chosen is None:
                raise Forbidden(NOT_A_MEMBER, words="not_a_member")
            now = self.system.clock.now()
            require_second_factor(chosen.second_factor_due, now)
            require_accepted(chosen.terms_due, now)
            await uow.commit()

    async def found(self, caller: Caller, slug: str, name: str, actor: Actor) -> Founded:
        """Create an organization. The caller becomes its owner and is signed in to it on the same device. A platform owner's organization
        gets the largest tier. Raises `BadRequest` for a slug or name that is not allowed, when the caller has too many organizations, and
        when nobody has proved the caller's address, `Conflict` when the slug is taken, `TermsRequired` for terms of the installation,
        `Unauthorized`.
        """
        wanted, most = await self._wanted(caller, slug, name)
        async with self.unit_of_work() as uow:
            organization, owner, opener = await self._founded(uow, caller, wanted, most)
            opened = await self.sessions.open(
                uow,
                opener.account,
                device=caller.device,
                authenticated_by=caller.authentication_methods,
                context=Context(organization.id, organization.slug),
                parent=opener.session,
                proved=opener.session.proved,
            )
            await uow.record_all([organization_created(organization, actor), session_opened(owner, opened.session.id, actor)])
            await uow.commit()
        return Founded(organization, opener.account, owner, await self.sessions.tokens(opened))

    async def found_in_browser(self, caller: Caller, slug: str, name: str, actor: Actor) -> Organization:
        """As `found`, without a session in the organization: the browser's own session is good for it. Whoever may approve the organization
        has approved it.
        """
        wanted, most = await self._wanted(caller, slug, name)
        async with self.unit_of_work() as uow:
            organization, _, _ = await self._founded(uow, caller, wanted, most, approves=True)
            await uow.record(organization_created(organization, actor))
            await uow.commit()
        return organization

    async def found_for(self, email: Email, slug: str, name: str, actor: Actor) -> Organization:
        """Create an organization for the person with this address, as an operator asks at the command line. It needs no approval. The
        person becomes its owner, and confirms at the next sign-in that it is theirs. Raises `NotFound` when nobody has the address.
        """
        slug, name, now = organization_slug(slug), organization_name(name), self.system.clock.now()
        async with self.unit_of_work() as uow:
            account = await uow.accounts.find(email)
            if account is None or account.deactivated_at is not None:
                raise NotFound("There is no active account with this e-mail")
            await uow.accounts.lock_for_share(account.id)
            organization = replace(self._new(account.id, slug, name), status=OrganizationStatus.ACTIVE, approved_at=now)
            if await uow.organizations.add(organization) is None:
                raise Conflict("slug: another organization already has it", words="slug_taken")
            membership = _owner(MembershipId(self.system.ids.new()), organization, account.id, MembershipOrigin.ADDED)
            await uow.members.add(membership)
            await uow.record(organization_created(organization, actor))
            await uow.commit()
        return organization

    async def _wanted(self, caller: Caller, slug: str, name: str) -> tuple[Organization, TierId]:
        """The new organization, and the tier that it gets if the caller still is a platform owner."""
        organization = self._new(caller.user, organization_slug(slug), organization_name(name))
        # Platform owners can change every organization's tier anyway.
        governs = caller.is_platform_owner and caller.impersonator is None
        return organization, largest(await self.tiers.list()).id if governs else FREE

    async def _founded(
        self, uow: UnitOfWork, caller: Caller, organization: Organization, most: TierId, *, approves: bool = False
    ) -> tuple[Organization, Membership, Opener]:
        opener = await uow.sessions.find_opener_for_update(caller.session, caller.user)
        if opener is None:
            raise Unauthorized("The session has ended", words="session_ended")
        require_accepted(await uow.terms.due(caller.user) if caller.impersonator is None else None, self.system.clock.now())
        if not opener.account.address_is_proved:
            # Whoever proves the address later must not find themselves the owner of somebody else's organization.
            raise BadRequest("Verify your email address first", words="address_unproved")
        if opener.account.is_platform_owner:
            organization = replace(organization, tier=most)
            if approves and caller.impersonator is None and not organization.is_active:
                now = organization.created_at
                organization = replace(organization, status=OrganizationStatus.ACTIVE, approved_at=now, approved_by=caller.user)
        added = await uow.organizations.add(organization)
        if added is None:
            raise Conflict("slug: another organization already has it", words="slug_taken")
        if not organization.is_active and added.waiting >= MOST_APPROVALS:
            message = f"{MOST_APPROVALS} of your organizations are waiting for approval: wait until one is decided"
            raise BadRequest(message, words="organizations_waiting", values={"count": MOST_APPROVALS})
        if added.owned >= MOST_OWNED:
            message = f"You own {MOST_OWNED} organizations, which is as many as anybody may own"
            raise BadRequest(message, words="organizations_owned", values={"count": MOST_OWNED})
        came_by = MembershipOrigin.ADDED if caller.impersonator else MembershipOrigin.FOUNDED
        owner = _owner(MembershipId(self.system.ids.new()), organization, caller.user, came_by)
        await uow.members.add(owner)
        return organization, owner, opener

    async def list(self, user: UserId, session: SessionId | None = None) -> Sequence[OrganizationOverview]:
        """The organizations that this person belongs to, in any state, by name. At most `MOST_LISTED`. `session`: see the port."""
        return await self.lookup.list(user, session)

    async def get(self, member: Member) -> OrganizationOverview:
        return await self._overview(member)

    async def change(self, member: Member, change: OrganizationUpdate, actor: Actor) -> OrganizationOverview:
        """Raises `BadRequest`, `NotFound`, and `Forbidden` when the caller may no longer do this."""
        stored = change.stored()
        metadata = stored.pop("metadata", None)
        async with self.unit_of_work() as uow:
            held = found(await uow.organizations.find_for_update(member.organization), _UNKNOWN, words="organization_unknown")
            known = await uow.members.find(member.organization, member.user)
            if known is None or Capability.SETTINGS_MANAGE not in known.capabilities:
                raise Forbidden
            require_standing(member, known)
            before, now = held.organization, self.system.clock.now()
            after = replace(before, **stored)
            events: list[Event] = []
            if after != before:
                await uow.organizations.save(replace(after, updated_at=now))
                events.append(organization_updated(before, after, actor))
            if metadata is not None and await uow.organizations.save_metadata(member.organization, metadata, now):
                events.append(organization_metadata_changed(before, actor))
            if events:
                await uow.record_all(events)
                await uow.commit()
        return await self._overview(member)

    async def delete(self, member: Member, actor: Actor) -> None:
        """The organization disappears from every answer at once; its data is removed in batches. Raises `Forbidden` when the caller is not,
        or no longer, the owner, `NotFound`, and `OrganizationNotActive` while the organization is suspended.
        """
        async with self.unit_of_work() as uow:
            held = found(await uow.organizations.find_for_update(member.organization), _UNKNOWN, words="organization_unknown")
            # A deletion cannot be undone, so a person who has just transferred the ownership must not be able to delete the organization.
            acting, _ = await find_members_for_update(uow, member, in_any_state=True)
            await require_owner(uow, acting, self.system.clock.now())
            if not member.is_operators:
                require_deletable(held.organization)
            now = self.system.clock.now()
            await uow.organizations.delete(member.organization, now)
            await uow.jobs.add(purge_job(member.organization))
            for event in organization_deleted(held.organization, actor):
                await uow.record(event)
            await uow.commit()

    def _new(self, owner: UserId, slug: str, name: str) -> Organization:
        now = self.system.clock.now()
        return Organization(
            id=OrganizationId(self.system.ids.new()),
            slug=slug,
            name=name,
            status=OrganizationStatus.ACTIVE if self.auto_approve else OrganizationStatus.PENDING,
            tier=FREE,
            owner=owner,
            approved_at=now if self.auto_approve else None,
            created_at=now,
            updated_at=now,
        )

    async def _overview(self, member: Member) -> OrganizationOverview:
        overview = await self.lookup.find(member.organization, member.user)
        if overview is None:
            # Since the request came in, the organization was deleted or the caller left it.
            raise NotFound(_UNKNOWN, words="organization_unknown")
        return overview


def _owner(membership: MembershipId, organization: Organization, user: UserId, came_by: MembershipOrigin) -> Membership:
    own_since = organization.created_at if came_by is MembershipOrigin.FOUNDED else None
    owner = BuiltInRole.OWNER.value
    return Membership(membership, organization.id, user, owner, organization.created_at, came_by=came_by, own_since=own_since)


_UNKNOWN: Final = "There is no such organization"
