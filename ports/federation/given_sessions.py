"""Where the sessions of applications are looked up."""

from typing import Protocol

from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.given_sessions import GivenSession, LivingSession
from core.domain.identifiers import ClientId, SessionId, UserId


class GivenSessionLookup(Protocol):
    """Outside any unit of work, one statement and one round trip each."""

    async def find(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId
    ) -> tuple[RegisteredClient, LivingSession | None] | None:
        """What `ClientLookup.find` finds, and beside it this person's session, if it counts at this moment and is in a service."""

    async def find_by_refresh_token(self, digest: bytes) -> GivenSession | None:
        """None when no application was given a session with such a refresh token."""
