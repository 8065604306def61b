"""Look-ups of the sessions that applications were given."""

from typing import Protocol

from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.given_sessions import GivenSession, LivingAudience, LivingSession, StandingApi
from core.domain.identifiers import ClientId, ResourceServerId, ServiceId, SessionId, UserId


class GivenSessionLookup(Protocol):
    """Look-ups of many requests share one statement and one round trip, outside any unit of work."""

    async def find(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId
    ) -> tuple[RegisteredClient, LivingSession | None] | None:
        """The client, as `ClientLookup.find` finds it, and this person's session, if the session is alive at this moment and is in a
        service.
        """

    async def find_at_resource(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> tuple[RegisteredClient, LivingAudience | None] | None:
        """As `find`, for a session's token for an API."""

    async def find_exchanged(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> tuple[RegisteredClient, LivingAudience | None] | None:
        """As `find_at_resource`, for the token of a session that an exchange opened. The session of the person's own application below it
        must be alive, too, and everything on the way.
        """

    async def find_api(self, resource: ResourceServerId, holder: ServiceId) -> StandingApi | None:
        """None unless the API is open to the application that holds the token."""

    async def find_by_refresh_token(self, digest: bytes) -> GivenSession | None:
        """None when no application was given a session with such a refresh token."""
