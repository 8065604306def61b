"""Adds members by their email domain at the end of a sign-in, and manages the requests of users to join."""

from collections.abc import Sequence
from typing import Final

import structlog

from core.domain.errors import NotFound, RetryLater, found
from core.domain.identifiers import JoinRequestId, MembershipId, UserId
from core.domain.mail import Email, mail_domain
from core.domain.record.events import Actor
from core.domain.requests import Page
from core.domain.tenancy.invitations import require_may_admit
from core.domain.tenancy.join_requests import (
    Asking,
    JoinCandidate,
    Joined,
    JoinRequest,
    JoinRequestStatus,
    OwnJoinRequest,
    join_approved,
    join_declined,
    join_requested,
    joined_by_domain,
    joined_by_request,
)
from core.domain.tenancy.members import Member, Membership, MembershipOrigin
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from core.usecases.tenancy.texts import organization_mail
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.tenancy.members import JoinRequestStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_UNKNOWN: Final = "There is no such request"


class JoinByDomain(Frozen):
    """Implements `ports.identity.sign_in.Joining`."""

    unit_of_work: UnitOfWorkFactory
    templates: MailTemplates
    metrics: Metrics
    system: System

    async def join_at_sign_in(self, user: UserId, email: Email) -> None:
        """Joins in a unit of work of its own, because the organization is held before accounts, and a sign-in holds its account. If the
        organization cannot be held in time, the sign-in goes on, and the next sign-in tries again.
        """
        try:
            async with self.unit_of_work() as uow:
                outcome = await self.join_by_domain(uow, user, email)
                if outcome is None:
                    return
                await uow.commit()
        except RetryLater as refusal:
            log.warning("join_put_off", user=str(user), reason=refusal.detail or refusal.message)
            return
        self.metrics.joined_by_domain(outcome.value)
        log.info("joined_by_domain", user=str(user), outcome=outcome.value)

    async def join_by_domain(self, uow: UnitOfWork, user: UserId, email: Email) -> Joined | None:
        """Makes the person a member of the organization that has proved the domain of the address, or asks in their name, as the domain's
        route says. The address is that of the account, and verified. None: nothing was written. The unit of work must hold nothing yet.
        """
        domain = mail_domain(email)
        candidate = await uow.join_requests.hold_candidate(user, domain) if domain else None
        if candidate is None or not candidate.owns(email):
            return None
        outcome = candidate.outcome()
        if outcome is Joined.MEMBER:
            return outcome if await self._add(uow, candidate) else None
        if outcome is not None:
            await self._ask(uow, candidate, email)
        return outcome

    async def _add(self, uow: UnitOfWork, candidate: JoinCandidate) -> bool:
        user, organization = candidate.account.id, candidate.organization
        # The person has only signed in, so the membership is not marked as the person's own act.
        membership = Membership(
            MembershipId(self.system.ids.new()),
            organization,
            user,
            BuiltInRole.MEMBER,
            self.system.clock.now(),
            came_by=MembershipOrigin.ADDED,
        )
        # The organization and the account are held, so nothing comes between; should anything, nothing is said of it.
        added = await uow.members.add(membership)
        if added:
            await uow.record(joined_by_domain(organization, user, candidate.domain))
        return added

    async def _ask(self, uow: UnitOfWork, candidate: JoinCandidate, email: Email) -> None:
        now = self.system.clock.now()
        request = JoinRequest(
            id=JoinRequestId(self.system.ids.new()),
            organization=candidate.organization,
            user=candidate.account.id,
            email=email,
            status=JoinRequestStatus.PENDING,
            created_at=now,
        )
        await uow.join_requests.add(request)
        await uow.record(join_requested(request, candidate.domain))
        if not candidate.is_mailed(now):
            return
        for administrator in await uow.join_requests.administrators(candidate.organization):
            mail = organization_mail(
                self.templates,
                candidate.organization,
                "join_requested",
                administrator.email.address,
                account=administrator.user,
                language=administrator.language,
                branding=candidate.branding,
                is_own=administrator.is_own,
                person=email.address,
                domain=candidate.domain,
            )
            await uow.jobs.add(mail.as_job())


class JoinRequests(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: JoinRequestStore
    templates: MailTemplates
    system: System

    async def list(self, member: Member, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        """Newest first."""
        return await self.lookup.list(member.organization, status, page)

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        """Those that wait for an answer, newest first."""
        return await self.lookup.list_own(user)

    async def approve(self, member: Member, request: JoinRequestId, actor: Actor) -> None:
        """The person is a member from then on, and gets a mail. Raises `NotFound`, `BadRequest`, `TeamLimitExceeded`, and `Forbidden` when
        the caller may no longer do it, or holds less than the person would get.
        """
        async with self.unit_of_work() as uow:
            asking, rights = await _held(uow, member, request)
            require_may_admit(rights)
            asking.require_approvable()
            await uow.join_requests.close(request, JoinRequestStatus.APPROVED, member.person, self.system.clock.now())
            membership = Membership(
                MembershipId(self.system.ids.new()),
                member.organization,
                asking.account.id,
                BuiltInRole.MEMBER,
                self.system.clock.now(),
                came_by=MembershipOrigin.ADDED,
            )
            if not await uow.members.add(membership):
                raise NotFound(_UNKNOWN)
            await uow.record_all([joined_by_request(asking.request, actor), join_approved(asking.request, actor)])
            mail = organization_mail(
                self.templates,
                member.organization,
                "join_approved",
                asking.account.email.address,
                account=asking.account.id,
                language=asking.account.language,
                branding=asking.branding,
            )
            await uow.jobs.add(mail.as_job())
            await uow.commit()

    async def decline(self, member: Member, request: JoinRequestId, actor: Actor) -> None:
        """Declines the request. The person cannot ask again, and gets no mail. Raises `NotFound`, `BadRequest`, and `Forbidden` when the
        caller may no longer do it.
        """
        async with self.unit_of_work() as uow:
            asking, _ = await _held(uow, member, request)
            await uow.join_requests.close(request, JoinRequestStatus.DECLINED, member.person, self.system.clock.now())
            await uow.record(join_declined(asking.request, actor))
            await uow.commit()


async def _held(uow: UnitOfWork, member: Member, request: JoinRequestId) -> tuple[Asking, frozenset[Capability]]:
    """Returns the request and the member's rights."""
    rights = await hold_rights(uow, member, Capability.MEMBERS_MANAGE)
    asking = found(await uow.join_requests.find(member.organization, request), _UNKNOWN)
    asking.require_pending()
    return asking, rights
