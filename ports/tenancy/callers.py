"""Look-ups of callers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.tenancy.members import OrganizationStanding


class CallerLookup(Protocol):
    """Every authenticated request asks here, outside any unit of work. Look-ups of many requests share one statement and one round trip."""

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        """The caller behind a living session of an active user, in the session's context. None when the session was revoked or has ended,
        the user is deactivated, either is unknown, or the impersonator may no longer act in the user's name.
        """

    async def find_in_service(self, session: SessionId, user: UserId) -> Caller | None:
        """As `find`, for a session in a service; and whether its organization requires a second factor that the person lacks."""

    async def find_for_userinfo(self, session: SessionId, user: UserId) -> Caller | None:
        """As `find_in_service`, with the profile if the scopes tell it, and whether the service may learn more."""

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find`, and how the caller stands to the organization with this slug. The standing is None when there is no such organization.
        A person who is not a member stands in no relation to the organization.
        """

    async def find_browser(self, digest: bytes) -> Caller | None:
        """The caller behind the cookie of a browser session, with what they have proved. None when the session has ended, or there is no
        such cookie.
        """

    async def find_browsers(self, asked: Sequence[bytes]) -> Mapping[bytes, Caller]:
        """As `find_browser`, for several cookies of one browser in one statement. A cookie without a living session is left out."""

    async def find_browser_member(self, digest: bytes, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find_browser`, and how the caller stands to the organization with this slug, as `find_member` tells it, with its name."""

    async def find_acting(self, digest: bytes, opener: bytes) -> Caller | None:
        """The person in whose name a platform owner acts in a browser. `opener` is the digest of the cookie of the session that the
        impersonation was opened from. `find_browser` never finds such a session.
        """

    async def find_acting_member(self, digest: bytes, opener: bytes, slug: str) -> tuple[Caller, OrganizationStanding | None] | None:
        """As `find_acting`, and how the person stands to the organization with this slug, with its name."""
