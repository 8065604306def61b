"""Impersonation: a platform owner signs in as another user, to see what this user sees."""

from datetime import datetime

from core.domain.errors import BadRequest, OrganizationNotActive, Unauthorized, found
from core.domain.identifiers import AuditEntryId, ImpersonationId, OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller, Impersonation, reason_of, request_made
from core.domain.identity.sessions import PLATFORM, Context, Impersonated, Session, TokenPair
from core.domain.identity.sign_in import open_context, service_named
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.identity.sessions import Sessions
from ports.identity.sessions import Impersonable
from ports.system import Ids
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Impersonating(Frozen):
    """What the platform owner gets."""

    id: ImpersonationId
    account: Account
    tokens: TokenPair
    expires_at: datetime
    audit_entry: AuditEntryId


class ActingBrowser(Frozen):
    """What the platform owner's browser gets: the value of the second cookie."""

    token: Token
    account: Account
    ends_at: datetime


class Impersonations(Frozen):
    """Starts and ends impersonation sessions, and records every request that they make.

    An impersonation leaves no device, no login event and no trusted browser in the user's name. It leaves only audit entries: one for the
    start, with the reason, and one for every request made in the user's name.
    """

    unit_of_work: UnitOfWorkFactory
    sessions: Sessions
    ids: Ids

    async def begin(
        self, caller: Caller, user: UserId, reason: str, actor: Actor, *, organization: str = "", service: str = ""
    ) -> Impersonating:
        """Opens a session as this user: in an organization of the user's if `organization` is given, or in a service that the user uses if
        `service` is given. The caller is a platform owner.
        """
        reason = reason_of(reason)
        async with self.unit_of_work() as uow:
            found = await _found(uow, caller, user, organization, service)
            account = found.account
            context = _context(organization, service, found)
            impersonated = Impersonated(ImpersonationId(self.ids.new()), caller.user)
            opened = await self.sessions.open(
                uow,
                account,
                device=None,
                authenticated_by=(),
                context=context,
                impersonation=impersonated,
                subscription=found.subscription,
                tells_more=found.tells_more,
                parent=found.opener,
            )
            session = opened.session
            entry = await _started(uow, session, impersonated, reason, actor)
            await uow.commit()
        tokens = await self.sessions.tokens(opened)
        return Impersonating(impersonated.id, account, tokens, session.ends_at, entry)

    async def begin_in_browser(self, caller: Caller, user: UserId, reason: str, actor: Actor) -> ActingBrowser:
        """Opens a session as this user for the browser of the caller, who is a platform owner. The session counts only beside the cookie of
        the session that it was opened from.
        """
        reason = reason_of(reason)
        token = self.sessions.system.secrets.token()
        async with self.unit_of_work() as uow:
            found = await _found(uow, caller, user, "", "")
            impersonated = Impersonated(ImpersonationId(self.ids.new()), caller.user)
            session = await self.sessions.begin(
                uow, found.account, device=None, authenticated_by=(), impersonation=impersonated, parent=found.opener
            )
            await uow.browser_sessions.add(token.digest(), session.id)
            await _started(uow, session, impersonated, reason, actor)
            await uow.commit()
        return ActingBrowser(token, found.account, session.ends_at)

    async def end_in_browser(self, caller: Caller, actor: Actor) -> None:
        """Ends the session of a platform owner who acts in this person's name. May be repeated."""
        if caller.impersonator is None:
            raise BadRequest("This session is the person's own", words="session_in_use")
        await self.sessions.sign_out(caller.session, actor)

    async def witness(self, caller: Caller, method: str, path: str, actor: Actor, organization: OrganizationId | None = None) -> None:
        """Records a request in another person's name before the request is answered: a request that cannot be recorded is not carried out.
        The entry goes into the log of the organization that the request is about, or otherwise of the session's organization.
        """
        async with self.unit_of_work() as uow:
            await uow.record(request_made(caller.user, organization or caller.organization_id, method, path, actor))
            await uow.commit()


async def _found(uow: UnitOfWork, caller: Caller, user: UserId, organization: str, service: str) -> Impersonable:
    """The person, whom the caller may impersonate. Raises `NotFound`, `Unauthorized`, `BadRequest`."""
    known = found(
        await uow.impersonations.find_user(user, organization, service, by=caller.user, session=caller.session), "There is no such user"
    )
    if known.opener is None:
        # The platform owner's session has ended since the request came in, with everything opened from it, so no impersonation may begin.
        raise Unauthorized("The session has ended")
    if known.account.is_platform_owner:
        raise BadRequest("A platform owner cannot be impersonated", words="no_acting_as_owner")
    if known.account.deactivated_at is not None:
        # The first request of such a session would be refused.
        raise BadRequest("The account is deactivated", words="account_deactivated")
    return known


async def _started(uow: UnitOfWork, session: Session, impersonated: Impersonated, reason: str, actor: Actor) -> AuditEntryId:
    impersonation = Impersonation(
        impersonated.id,
        impersonated.by,
        session.user,
        reason,
        session.id,
        created_at=session.created_at,
        expires_at=session.ends_at,
    )
    await uow.impersonations.add(impersonation)
    entry = await uow.record(impersonation.started(session.context, actor))
    assert entry is not None  # noqa: S101 - for the type checker: the start is audited
    return entry


def _context(organization: str, service: str, found: Impersonable) -> Context:
    if service_named(organization, service) is not None:
        if found.service is None:
            # The answer is the same whether or not such a service exists, and also for members of its organization who have never signed in
            # there.
            raise BadRequest("The user does not use that service", words="person_unknown_here")
        return open_context(found.service)
    if not organization:
        return PLATFORM
    membership = found.membership
    if membership is None:
        # The answer is the same whether or not the organization exists, because this user sees nothing of the organization.
        raise BadRequest("The user is not a member of that organization", words="person_unknown_here")
    if not membership.is_active:
        raise OrganizationNotActive
    return Context(membership.organization, membership.organization_slug)
