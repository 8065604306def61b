"""Checks a member's rights within the transaction of a change, and explains access to operators."""

from collections.abc import Collection, Mapping
from datetime import datetime

from core.domain.errors import Forbidden, OrganizationNotActive, Unauthorized, found
from core.domain.identifiers import UserId
from core.domain.identity.callers import NOT_A_MEMBER, Caller
from core.domain.mail import Email
from core.domain.tenancy.members import Member, UnconfirmedOwnership, ownership_confirmed
from core.domain.tenancy.organizations import Accessor
from core.domain.tenancy.roles import GRANTED_BY_OWNER, BuiltInRole, Capability, require_grantable
from core.frozen import Frozen
from ports.tenancy.members import KnownMember, RelationLookup
from ports.unit_of_work import UnitOfWork


class Acting(Frozen):
    """What the caller may do as things are now."""

    capabilities: frozenset[Capability]
    role: str
    """Empty for a management key."""
    unconfirmed: UnconfirmedOwnership | None = None
    """The ownership that the caller, who acts in person, has not confirmed yet."""
    organization_name: str = ""

    @property
    def is_owner(self) -> bool:
        return self.role == BuiltInRole.OWNER

    @property
    def grantable(self) -> frozenset[Capability]:
        """What the caller may give to others, and to roles and keys."""
        return self.capabilities if self.is_owner else self.capabilities - GRANTED_BY_OWNER


async def hold_members(
    uow: UnitOfWork, member: Member, *others: UserId, in_any_state: bool = False
) -> tuple[Acting, Mapping[UserId, KnownMember]]:
    """Checks the rights of the caller again, with the organization locked.

    The first check of the request may be older than a change of the member's role, and the result of the request would outlive that change.
    So the rights are checked again under the lock, and cannot change until the unit of work ends. The same holds for a management API key,
    which may have been revoked meanwhile, and whose creator may have lost rights. A request that makes many changes, one after the other,
    is also stopped here: by everything that would stop a new request.

    The caller as things are now, and those of the others who are members. Raises `Forbidden` when the caller is no longer a member,
    `Unauthorized` when the caller's account was deactivated or the calling management key has ended, and `OrganizationNotActive`, unless
    the act is allowed in any state of the organization.
    """
    known = await uow.members.hold(member.organization, member.responsible, *others)
    if member.key is not None:
        able = await uow.management_keys.able(member.key.key)
        if able is None:
            raise Unauthorized("The management key is not valid")
        if not able.organization_is_active:
            raise OrganizationNotActive
        return Acting(able.holder.capabilities, "", organization_name=able.holder.organization_name), known
    acting = known.get(member.user)
    if acting is None:
        raise Forbidden(NOT_A_MEMBER, words="not_a_member")
    require_standing(member, acting, in_any_state=in_any_state)
    return Acting(acting.capabilities, acting.membership.role, _unconfirmed(member, acting), acting.organization_name), known


def require_standing(member: Member, known: KnownMember, *, in_any_state: bool = False) -> None:
    """Raises `Unauthorized` when the caller's account was deactivated since the request came in, and `OrganizationNotActive`."""
    if member.is_operators:
        return
    if known.account.deactivated_at is not None:
        raise Unauthorized
    if not (known.organization_is_active or in_any_state):
        raise OrganizationNotActive


async def hold_rights(uow: UnitOfWork, member: Member, needed: Capability) -> frozenset[Capability]:
    """Everything that the caller may do and give to others. Raises `Forbidden` when that does not, or no longer, include what is needed."""
    acting, _ = await hold_members(uow, member)
    require_capability(acting, needed)
    return acting.grantable


async def hold_office(uow: UnitOfWork, owner: Caller) -> None:
    """Nobody else changes the set of platform owners until the unit of work ends. Raises `Forbidden` when the caller has left it."""
    await uow.platform_owners.hold()
    account = (await uow.accounts.find_all({owner.user})).get(owner.user)
    if account is None or not account.is_platform_owner or account.deactivated_at is not None:
        raise Forbidden


def require_capability(acting: Acting, needed: Capability) -> None:
    if needed not in acting.capabilities:
        raise Forbidden


async def require_owner(uow: UnitOfWork, acting: Acting, at: datetime) -> None:
    """For an act that needs the owner. The owner's first such act confirms the ownership, in the same transaction. Raises `Forbidden`."""
    if not acting.is_owner:
        raise Forbidden
    await acted_as_owner(uow, acting, at)


async def acted_as_owner(uow: UnitOfWork, acting: Acting, at: datetime) -> None:
    """For an act that anybody else may not do, where the code has checked this."""
    if acting.unconfirmed is not None:
        await confirm_ownership(uow, acting.unconfirmed, at)


async def require_may_grant(uow: UnitOfWork, acting: Acting, wanted: Collection[Capability], at: datetime) -> None:
    """For an act that gives capabilities to others. Only the owner grants some of them. Raises `Forbidden`."""
    require_grantable(wanted, acting.grantable)
    if not GRANTED_BY_OWNER.isdisjoint(wanted):
        await acted_as_owner(uow, acting, at)


async def confirm_ownership(uow: UnitOfWork, ownership: UnconfirmedOwnership, at: datetime) -> None:
    """Does nothing for anybody but an owner who has not confirmed the ownership."""
    if await uow.ownerships.confirm(ownership, at):
        await uow.record(ownership_confirmed(ownership))


def _unconfirmed(member: Member, acting: KnownMember) -> UnconfirmedOwnership | None:
    # Nobody confirms anything in somebody else's name, and an operator does not either.
    if not acting.is_unconfirmed_owner or member.is_operators or member.caller.impersonator is not None:
        return None
    return UnconfirmedOwnership(member.organization, member.user)


class AccessExplainer(Frozen):
    """Shows operators a user's rights in an organization, and what grants each of them."""

    lookup: RelationLookup

    async def explain(self, email: Email, slug: str) -> Accessor:
        """Returns this person's rights in this organization. Raises `NotFound` when either does not exist."""
        return found(await self.lookup.find(email, slug), f"There is no account {email}, or no organization {slug}")
