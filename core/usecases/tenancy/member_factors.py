"""Members who have lost their second factor, and whoever helps them: a person who manages the members of the organization that made their
account. For everybody else, only the owners of the platform can.
"""

from core.domain.errors import BadRequest, Forbidden
from core.domain.identifiers import UserId
from core.domain.identity.impersonation import reason_of
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability, require_no_more
from core.frozen import Frozen
from core.usecases.identity.mfa import Mfa
from core.usecases.tenancy.members import target_in
from core.usecases.tenancy.rights import hold_members, require_capability
from ports.unit_of_work import UnitOfWorkFactory


class MemberFactors(Frozen):
    unit_of_work: UnitOfWorkFactory
    mfa: Mfa

    async def disable(self, caller: Member, user: UserId, reason: str, actor: Actor) -> bool:
        """From then on they sign in without. They are told by mail. False when there was none. Raises `NotFound`, `BadRequest` for oneself,
        for the owner, and without a reason, and `Forbidden` when the member may do more than the caller, or the account is not the
        organization's alone: what it opens elsewhere is not this organization's to open.
        """
        reason = reason_of(reason)
        if user == caller.user:
            raise BadRequest("Another member has to do it: your own second factor you disable with DELETE /api/user/mfa")
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE)
            target = target_in(known, user)
            require_no_more(target.capabilities, acting.capabilities)
            await uow.accounts.hold(user)
            if not await uow.members.belongs_here_alone(caller.organization, user):
                raise Forbidden("This account is not your organization's alone: the owners of the platform can help")
            account = target.account
            disabled = await self.mfa.force_end(
                uow, user, account.email, actor, reason=reason, language=account.language, organization=caller.organization
            )
            await uow.commit()
        return disabled
