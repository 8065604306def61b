"""Checks a member's rights once more in the middle of a change.

The first check of the request may be older than a change of the member's role, and the result of the request would outlive that change. So
the rights are checked again when the organization is held, and cannot change until the unit of work ends.
"""

from collections.abc import Mapping

from core.domain.errors import Forbidden
from core.domain.identifiers import UserId
from core.domain.identity.callers import NOT_A_MEMBER
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import BuiltInRole, Capability
from ports.tenancy.members import KnownMember
from ports.unit_of_work import UnitOfWork


async def hold_members(uow: UnitOfWork, member: Member, *others: UserId) -> tuple[KnownMember, Mapping[UserId, KnownMember]]:
    """The caller as things are now, and those of the others who are members. Raises `Forbidden` when the caller is no longer a member."""
    known = await uow.members.hold(member.organization, member.user, *others)
    acting = known.get(member.user)
    if acting is None:
        raise Forbidden(NOT_A_MEMBER)
    return acting, known


async def hold_rights(uow: UnitOfWork, member: Member, needed: Capability) -> frozenset[Capability]:
    """Everything that the caller may do. Raises `Forbidden` when that does not, or no longer, include what is needed."""
    acting, _ = await hold_members(uow, member)
    require_capability(acting, needed)
    return acting.capabilities


def require_capability(acting: KnownMember, needed: Capability) -> None:
    if needed not in acting.capabilities:
        raise Forbidden


def require_owner(acting: KnownMember) -> None:
    if acting.membership.role != BuiltInRole.OWNER:
        raise Forbidden
