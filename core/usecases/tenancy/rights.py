"""Checks a member's rights once more in the middle of a change.

The first check of the request may be older than a change of the member's role, and the result of the request would outlive that change. So
the rights are checked again when the organization is held, and cannot change until the unit of work ends. The same holds for a management
key, which may have ended meanwhile, and whose maker may have lost rights. A request that makes many changes, one after the other, is also
stopped here: by everything that would stop a new request.
"""

from collections.abc import Mapping

from core.domain.errors import Forbidden, OrganizationNotActive, Unauthorized
from core.domain.identifiers import UserId
from core.domain.identity.callers import NOT_A_MEMBER, Caller
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import GRANTED_BY_OWNER, BuiltInRole, Capability
from core.frozen import Frozen
from ports.tenancy.members import KnownMember
from ports.unit_of_work import UnitOfWork


class Acting(Frozen):
    """What the caller may do as things are now."""

    capabilities: frozenset[Capability]
    role: str
    """Empty for a management key."""

    @property
    def is_owner(self) -> bool:
        return self.role == BuiltInRole.OWNER

    @property
    def grantable(self) -> frozenset[Capability]:
        """What the caller may give to others, and to roles and keys."""
        return self.capabilities if self.is_owner else self.capabilities - GRANTED_BY_OWNER


async def hold_members(uow: UnitOfWork, member: Member, *others: UserId) -> tuple[Acting, Mapping[UserId, KnownMember]]:
    """The caller as things are now, and those of the others who are members. Raises `Forbidden` when the caller is no longer a member,
    `Unauthorized` when the caller's account was deactivated or the calling management key has ended, and `OrganizationNotActive`.
    """
    known = await uow.members.hold(member.organization, member.responsible, *others)
    if member.key is not None:
        able = await uow.management_keys.able(member.key.key)
        if able is None:
            raise Unauthorized("The management key is not valid")
        if not able.organization_is_active:
            raise OrganizationNotActive
        return Acting(able.holder.capabilities, ""), known
    acting = known.get(member.user)
    if acting is None:
        raise Forbidden(NOT_A_MEMBER)
    require_standing(member, acting)
    return Acting(acting.capabilities, acting.membership.role), known


def require_standing(member: Member, known: KnownMember) -> None:
    """Raises `Unauthorized` when the caller's account was deactivated since the request came in, and `OrganizationNotActive`."""
    if member.is_operators:
        return
    if known.account.deactivated_at is not None:
        raise Unauthorized
    if not known.organization_is_active:
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


def require_owner(acting: Acting) -> None:
    if not acting.is_owner:
        raise Forbidden
