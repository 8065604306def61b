"""Help for members who have lost their second factor. A person who manages the members of an organization can disable the second factor of
an account that belongs to this organization alone. For every other account only the owners of the platform can.
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
        """Disable a member's second factor. From then on the member signs in without it, and a mail tells them. Returns False when the
        member had no second factor. Raises `NotFound`, `BadRequest` for the caller, for the owner, and without a reason, and `Forbidden`
        when the member may do more than the caller, or when the account does not belong to the organization alone: the account may open
        other organizations too, and this organization must not weaken the sign-in there.
        """
        reason = reason_of(reason)
        if user == caller.user:
            raise BadRequest(
                "Another member has to do it: your own second factor you disable with DELETE /api/user/mfa", words="another_member"
            )
        async with self.unit_of_work() as uow:
            acting, known = await hold_members(uow, caller, user)
            require_capability(acting, Capability.MEMBERS_MANAGE)
            target = target_in(known, user)
            require_no_more(target.capabilities, acting.capabilities)
            await uow.accounts.hold(user)
            if not await uow.members.belongs_here_alone(caller.organization, user):
                raise Forbidden(
                    "This account is not your organization's alone: the owners of the platform can help", words="platform_can_help"
                )
            account = target.account
            disabled = await self.mfa.force_end(
                uow, user, account.email, actor, reason=reason, language=account.language, organization=caller.organization
            )
            await uow.commit()
        return disabled
