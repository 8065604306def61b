"""What a member may do, asked once more in the middle of a change."""

from core.domain.errors import Forbidden
from core.domain.members import Member
from core.domain.roles import Capability
from core.domain.sessions import NOT_A_MEMBER
from ports.unit_of_work import UnitOfWork


async def hold_rights(unit: UnitOfWork, member: Member, needed: Capability) -> frozenset[Capability]:
    """As things are, and stay, now that the organization is held: the answer to the request's first question may be older than a change of
    their role, and what the request makes would outlive it. Raises `Forbidden` for whoever has not, or no longer, what it needs.
    """
    acting = (await unit.members.hold(member.organization, member.user)).get(member.user)
    if acting is None:
        raise Forbidden(NOT_A_MEMBER)
    if needed not in acting.capabilities:
        raise Forbidden
    return acting.capabilities
