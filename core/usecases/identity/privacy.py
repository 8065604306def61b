"""A person's data: exported for the person and for people with permission, and forgotten."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import structlog

from core.domain.errors import NotFound, found
from core.domain.identifiers import LoginEventId, OrganizationId, PrivacyRequestId, UserId
from core.domain.identity.privacy import (
    PAGE,
    Export,
    ExportedLogin,
    PrivacyRequest,
    PrivacyRequester,
    Scope,
    export_scope,
    exported,
    forget_job,
    forgotten,
    placeholder,
    require_may_forget,
)
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.identity.accounts import PlaceholderTaken, PrivacyStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

_UNKNOWN = "There is no such user"


class Exported(Frozen):
    """The person's data, and the sign-ins page by page, newest first."""

    export: Export
    logins: AsyncGenerator[Sequence[ExportedLogin], None]


# What becomes of an organization whose owner, who has not confirmed the ownership, goes.
Declining = Callable[[UnitOfWork, OrganizationId, UserId], Awaitable[object]]


class Privacy(Frozen):
    """`most_logins` is the largest number of sign-ins in an export."""

    unit_of_work: UnitOfWorkFactory
    lookup: PrivacyStore
    decline: Declining
    most_logins: int
    system: System

    async def export(self, user: UserId, asker: PrivacyRequester, actor: Actor) -> Exported:
        """Reads the first page of sign-ins here, and the other pages only when the reader asks for them, so that a slow reader holds no
        connection. The export is recorded, unless people ask for their own data. Raises `NotFound`, `Forbidden`.
        """
        subject, export, logins = found(await self.lookup.export(user, asker, self.system.clock.now(), self.most_logins), _UNKNOWN)
        scope = export_scope(subject, asker)
        if asker.user != user:
            async with self.unit_of_work() as uow:
                await uow.record_all(exported(subject, scope, actor, asker.operator))
                await uow.commit()
        return Exported(export, self._pages(user, scope, logins))

    async def forget(self, user: UserId, asker: PrivacyRequester, actor: Actor) -> PrivacyRequest:
        """Forgets the person. As soon as this method returns, nobody can sign in with the account, and identifying data is gone, or hidden
        until the job has removed it. May be repeated: the first request stays. Raises `NotFound`, `Forbidden`.
        """
        attempt = 0
        while True:
            try:
                return await self._forget(user, asker, actor, attempt)
            except PlaceholderTaken:
                attempt += 1

    async def request(self, request: PrivacyRequestId, asker: PrivacyRequester, *, governs: bool) -> PrivacyRequest:
        """Returns a request to its requester and to platform owners. Raises `NotFound` for everybody else."""
        found = await self.lookup.request(request)
        if found is None or not (governs or found.requested_by == asker.user):
            raise NotFound("There is no such request")
        return found

    async def find(self, email: Email) -> UserId:
        """Returns the person with this address. Raises `NotFound`."""
        return found(await self.lookup.user(email), "There is no account with this email address")

    async def _forget(self, user: UserId, asker: PrivacyRequester, actor: Actor, attempt: int) -> PrivacyRequest:
        async with self.unit_of_work() as uow:
            # Organizations are held before accounts.
            await uow.ownerships.lock_all(user)
            subject = found(await uow.privacy.find_for_update(user, asker, self.system.clock.now()), _UNKNOWN)
            require_may_forget(subject, asker)
            if subject.request is not None:
                return subject.request
            # Read since the account is held, so that nobody makes the person an owner meanwhile.
            for organization in [one.organization for one in subject.belongings if one.is_unconfirmed_owner]:
                await self.decline(uow, organization, user)
            # The time is read after `lock_for_update`, so that it is later than every other change of the account.
            now = self.system.clock.now()
            request = PrivacyRequest(PrivacyRequestId(self.system.ids.new()), user, asker.user, now, None)
            await uow.privacy.anonymize(request, placeholder(now, attempt))
            await uow.jobs.add(forget_job(request.id))
            await uow.record_in_every_log(forgotten(user, actor, asker.operator), user, listed=True)
            await uow.commit()
        log.info("person_forgotten", user=str(user), request=str(request.id))
        return request

    async def _pages(self, user: UserId, scope: Scope, first: Sequence[ExportedLogin]) -> AsyncGenerator[Sequence[ExportedLogin], None]:
        page, left = first, self.most_logins
        while page:
            yield page
            left -= len(page)
            if left <= 0 or len(page) < PAGE:
                return
            before: LoginEventId = page[-1].id
            page = await self.lookup.logins(user, scope, before, min(PAGE, left))
