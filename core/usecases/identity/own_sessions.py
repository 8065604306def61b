"""Own sessions: a person lists their sessions, and ends them one by one."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, NotFound
from core.domain.identifiers import SessionId
from core.domain.identity.callers import Caller
from core.domain.identity.own_sessions import OwnSession
from core.domain.identity.own_sessions import OwnSessionList as Listed
from core.domain.identity.sessions import session_revoked
from core.domain.pages import Page
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.clock import Clock
from ports.identity.own_sessions import OwnSessionLookup
from ports.unit_of_work import UnitOfWorkFactory


class OwnSessions(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: OwnSessionLookup
    clock: Clock

    async def list(self, caller: Caller, page: Page) -> Listed:
        """Lists the caller's sessions: the current session first, then the last used."""
        return await self.lookup.list(caller.user, caller.session, self.clock.now(), page)

    async def tree(self, caller: Caller, session: SessionId) -> Sequence[OwnSession]:
        """Returns all sessions that end with this session, beginning with this session. Raises `NotFound`, also when the session is another
        person's or has ended.
        """
        found = await self.lookup.tree(caller.user, session, caller.session, self.clock.now())
        if not found:
            raise NotFound(_UNKNOWN)
        return found

    async def end(self, caller: Caller, session: SessionId, actor: Actor) -> None:
        """Ends the session and the sessions opened from it: all of these are refused from the next request on. May be repeated. Raises
        `BadRequest` for the caller's current session, and `NotFound` when this person has never had such a session.
        """
        if session == caller.session:
            raise BadRequest("This is the session that you are using: sign out instead", words="session_in_use")
        async with self.unit_of_work() as uow:
            # A simultaneous request that opens a session from this session either waits and finds this session ended, or has added the new
            # session already.
            await uow.accounts.hold(caller.user)
            if await uow.sessions.revoke(session, caller.user):
                await uow.record(session_revoked(caller.user, actor, session))
                await uow.commit()
                return
        if not await self.lookup.was_there(caller.user, session):
            raise NotFound(_UNKNOWN)


_UNKNOWN: Final = "There is no such session"
