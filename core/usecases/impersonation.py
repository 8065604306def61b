"""Impersonation: a platform owner signs in as somebody, to see what they see.

It leaves no trace that looks like the user's own doing: no device, no login event, no trust. What it leaves is the audit log's: the start
with its reason, and every request made in the user's name.
"""

from dataclasses import dataclass
from datetime import datetime

from core.domain.accounts import Account
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, Unauthorized
from core.domain.events import Actor
from core.domain.identifiers import AuditEntryId, ImpersonationId, OrganizationId, UserId
from core.domain.impersonation import Impersonation, reason_of, request_made
from core.domain.sessions import PLATFORM, Caller, Context, Impersonated, TokenPair
from core.domain.sign_in import open_context, service_named
from core.usecases.sessions import Sessions
from ports.ids import Ids
from ports.impersonations import Impersonable
from ports.unit_of_work import UnitOfWorkFactory


@dataclass(frozen=True, slots=True)
class Impersonating:
    """What the platform owner is given."""

    id: ImpersonationId
    account: Account
    tokens: TokenPair
    expires_at: datetime
    audit_entry: AuditEntryId


class Impersonations:
    def __init__(self, unit_of_work: UnitOfWorkFactory, sessions: Sessions, ids: Ids) -> None:
        self._unit_of_work = unit_of_work
        self._sessions = sessions
        self._ids = ids

    async def begin(
        self, caller: Caller, user: UserId, reason: str, actor: Actor, *, organization: str = "", service: str = ""
    ) -> Impersonating:
        """A session as this user, in this organization of theirs if one is named, or in this service that they use. The caller is a
        platform owner.
        """
        reason = reason_of(reason)
        async with self._unit_of_work() as unit:
            found = await unit.impersonations.find_user(user, organization, service, by=caller.user, session=caller.session)
            if found is None:
                raise NotFound("There is no such user")
            if not found.by_live_session:
                # Ended since the request came in, and all that hangs on it: this must not be one that slipped through.
                raise Unauthorized("The session has ended")
            account = found.account
            if account.is_platform_owner:
                raise BadRequest("A platform owner cannot be impersonated")
            if account.deactivated_at is not None:
                # A session of theirs would be refused on its first request.
                raise BadRequest("The account is deactivated")
            context = _context(organization, service, found)
            impersonated = Impersonated(ImpersonationId(self._ids.new()), caller.user)
            opened = await self._sessions.open(
                unit,
                account,
                device=None,
                authenticated_by=(),
                context=context,
                impersonation=impersonated,
                subscription=found.subscription,
            )
            session = opened.session
            impersonation = Impersonation(
                impersonated.id, caller.user, user, reason, session.id, created_at=session.created_at, expires_at=session.ends_at
            )
            await unit.impersonations.add(impersonation)
            entry = await unit.record(impersonation.started(context, actor))
            await unit.commit()
        assert entry is not None  # noqa: S101 - for the type checker: the start is audited
        tokens = await self._sessions.tokens(opened)
        return Impersonating(impersonated.id, account, tokens, session.ends_at, entry)

    async def witness(self, caller: Caller, method: str, path: str, actor: Actor, organization: OrganizationId | None = None) -> None:
        """Note a request in another's name, before it is answered: what cannot be noted is not done. It stands in the log of the
        organization that it is about, or else of the one that the session is in.
        """
        async with self._unit_of_work() as unit:
            await unit.record(request_made(caller.user, organization or caller.organization_id, method, path, actor))
            await unit.commit()


def _context(organization: str, service: str, found: Impersonable) -> Context:
    if service_named(organization, service) is not None:
        if found.service is None:
            # The same whether there is such a service or not, and also for its organization's members who have never been there.
            raise BadRequest("The user does not use that service")
        return open_context(found.service)
    if not organization:
        return PLATFORM
    membership = found.membership
    if membership is None:
        # The same whether the organization exists or not: there is nothing to see there as this user.
        raise BadRequest("The user is not a member of that organization")
    if not membership.is_active:
        raise OrganizationNotActive
    return Context(membership.organization, membership.organization_slug)
