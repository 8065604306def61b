"""Members: who belongs to an organization, in which role, who goes, and who owns it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from core.domain.accounts import Account
from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive, Unauthorized
from core.domain.events import Actor
from core.domain.identifiers import UserId
from core.domain.members import (
    Member,
    MemberList,
    Membership,
    member_removed,
    ownership_transferred,
    role_changed,
    session_opened,
)
from core.domain.pages import Page
from core.domain.roles import BuiltInRole, Capability, require_grantable, require_no_more
from core.domain.sessions import NOT_A_MEMBER, Caller, Context, TokenPair
from core.usecases.sessions import Sessions
from ports.clock import Clock
from ports.members import KnownMember, MemberLookup
from ports.unit_of_work import UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class Selected:
    """What somebody is given who goes on in an organization."""

    account: Account
    membership: Membership
    tokens: TokenPair


class Members:
    """Every change holds the organization and asks once more what its caller may do: the answer to the request's first question may be
    older than another change.
    """

    def __init__(self, unit_of_work: UnitOfWorkFactory, lookup: MemberLookup, sessions: Sessions, clock: Clock) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._sessions = sessions
        self._clock = clock

    async def list(self, member: Member, page: Page, role: str | None = None) -> MemberList:
        """Whoever came first, first; those in this role alone when one is named."""
        return await self._lookup.list(member.organization, page, role)

    async def change_role(self, caller: Member, user: UserId, slug: str, actor: Actor) -> KnownMember:
        """Give a member another role, built in or of the organization's own. May be repeated. Raises `BadRequest` for one's own role, the
        owner's, and a role that is not there or only given by transfer; `Forbidden`, `NotFound`.
        """
        if user == caller.user:
            raise BadRequest("Your own role is changed by somebody else")
        if slug == BuiltInRole.OWNER:
            raise BadRequest("role: ownership is transferred, not given")
        async with self._unit_of_work() as uow:
            known = await uow.members.hold(caller.organization, caller.user, user)
            acting = _acting(known, caller)
            _require_owner(acting)
            target = _target(known, user)
            role = await uow.roles.assignable(caller.organization, slug)
            if role is None:
                raise BadRequest("role: there is no such role")
            require_no_more(target.capabilities, acting.capabilities)
            require_grantable(role.capabilities, acting.capabilities)
            if target.membership.role == role.slug:
                return target
            changed = replace(target.membership, role=role.slug, role_id=role.id)
            await uow.members.change_role(caller.organization, user, role)
            await uow.record(role_changed(target.membership, target.account.email, role.slug, actor))
            await uow.commit()
        return KnownMember(target.account, changed, role.capabilities)

    async def remove(self, caller: Member, user: UserId, actor: Actor) -> None:
        """Their sessions in the organization are dead on the next request. Raises `BadRequest` for oneself and the owner, `Forbidden` for
        whoever may do more than the caller, `NotFound`.
        """
        if user == caller.user:
            raise BadRequest("You cannot remove yourself")
        async with self._unit_of_work() as uow:
            known = await uow.members.hold(caller.organization, caller.user, user)
            acting = _acting(known, caller)
            if Capability.MEMBERS_MANAGE not in acting.capabilities:
                raise Forbidden
            target = _target(known, user)
            require_no_more(target.capabilities, acting.capabilities)
            await uow.members.remove(caller.organization, user)
            await uow.record(member_removed(target.membership, target.account.email, actor))
            await uow.commit()

    async def transfer_ownership(self, caller: Member, user: UserId, actor: Actor) -> None:
        """The caller, who is the owner, becomes an admin, and this member the owner. Raises `BadRequest` when they are no member, or could
        not sign in as the owner; `Forbidden` when the caller is the owner no more.
        """
        if user == caller.user:
            raise BadRequest("new_owner_user_id: you are the owner already")
        async with self._unit_of_work() as uow:
            known = await uow.members.hold(caller.organization, caller.user, user)
            _require_owner(_acting(known, caller))
            target = known.get(user)
            if target is None:
                raise BadRequest("new_owner_user_id: this user is not a member of the organization")
            if target.account.deactivated_at is not None:
                raise BadRequest("new_owner_user_id: this user is deactivated")
            await uow.members.transfer_ownership(caller.organization, caller.user, user, self._clock.now())
            await uow.record(ownership_transferred(caller.organization, caller.user, user, actor))
            await uow.commit()

    async def select(self, caller: Caller, slug: str, actor: Actor) -> Selected:
        """A session of the caller's in this organization, beside the one that they have. Raises `NotFound`, `Forbidden` for whoever is no
        member, `OrganizationNotActive`, `Unauthorized` when the session has ended since the request came in.
        """
        async with self._unit_of_work() as uow:
            # In the order in which a removal comes by them: the membership, then the sessions.
            entry = await uow.members.enter(slug, caller.user)
            opener = await uow.sessions.hold_opener(caller.session, caller.user)
            if opener is None:
                raise Unauthorized("The session has ended")
            if entry is None:
                raise NotFound("There is no such organization")
            if entry.membership is None:
                raise Forbidden(NOT_A_MEMBER)
            if not entry.organization_is_active:
                raise OrganizationNotActive
            opened = await self._sessions.open(
                uow,
                opener.account,
                device=caller.device,
                authenticated_by=caller.authentication_methods,
                context=Context(entry.organization, entry.organization_slug),
                until=opener.ends_at,
            )
            await uow.record(session_opened(entry.membership, opened.session.id, actor))
            await uow.commit()
        return Selected(opener.account, entry.membership, await self._sessions.tokens(opened))


def _acting(known: Mapping[UserId, KnownMember], caller: Member) -> KnownMember:
    """The caller, as things are now that the organization is held."""
    acting = known.get(caller.user)
    if acting is None:
        raise Forbidden(NOT_A_MEMBER)
    return acting


def _require_owner(acting: KnownMember) -> None:
    if acting.membership.role != BuiltInRole.OWNER:
        raise Forbidden


def _target(known: Mapping[UserId, KnownMember], user: UserId) -> KnownMember:
    target = known.get(user)
    if target is None:
        raise NotFound("There is no such member")
    if target.membership.role == BuiltInRole.OWNER:
        raise BadRequest("The owner stays what they are until the ownership is transferred")
    return target
