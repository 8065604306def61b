"""Where callers are looked up."""

from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.tenancy.members import OrganizationStanding


class CallerLookup(Protocol):
    """Outside any unit of work, one statement and one round trip, on every authenticated request."""

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        """The caller behind a living session of an active user, in the session's context. None when the session was revoked or has ended,
        the user is deactivated, either is unknown, or the impersonator may no longer act in the user's name.
        """

    async def find_in_service(self, session: SessionId, user: UserId) -> Caller | None:
        """The same for a session in a service, with whether its organization requires a second factor that the person lacks."""

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        """The same caller, and how they stand to the organization with this slug. None when there is no such organization. A person who is
        not a member stands in no relation to it.
        """

    async def find_browser(self, digest: bytes) -> Caller | None:
        """The caller behind the cookie of a browser session, with what they have proved. None when it has ended, or there is none."""
