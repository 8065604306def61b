"""The first sign-in to an application appears to somebody who waits for it."""

from core.domain.errors import Forbidden, NotFound
from core.domain.federation.awaited_sign_ins import AwaitedPage, AwaitedSignIn, NewAwaitedSignIn
from core.domain.identifiers import AwaitedSignInId
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.federation.oauth import AwaitedSignInStore
from ports.system import Clock, Ids


class AwaitedSignIns(Frozen):
    store: AwaitedSignInStore
    clock: Clock
    ids: Ids

    async def begin(self, member: Member, service_slug: str) -> NewAwaitedSignIn:
        """The member waits in the browser's session, and on this page alone. Raises `NotFound`, and `Forbidden` for whoever acts in
        somebody's name: the requests that would show are those of the person's own browser.
        """
        caller = member.caller
        if caller.impersonator is not None:
            raise Forbidden("Nobody waits in somebody else's name", words="impersonating")
        new = NewAwaitedSignIn(
            id=AwaitedSignInId(self.ids.new()),
            user=caller.user,
            session=caller.session,
            organization=member.organization,
            service_slug=service_slug,
            began_at=self.clock.now(),
        )
        if not await self.store.begin(new):
            raise NotFound("The organization has no such service")
        return new

    async def look(self, member: Member, service_slug: str, page: AwaitedSignInId) -> AwaitedSignIn | None:
        """None when this page waits no more, or never did for this person, session and application."""
        found = await self.store.look(AwaitedPage(page, member.caller.user, member.caller.session))
        if found is None or found.organization != member.organization or found.service_slug != service_slug:
            return None
        return found
