"""The encounter of an application's request with the person who is signed in, and the store of pushed requests."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.unplaced_clients import UnplacedClient
from core.domain.identifiers import ClientId, PushedRequestId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.json import Json
from core.frozen import Frozen


class AuthorizationEncounter(Frozen):
    application: RequestingApplication
    signed_in: SignedInPerson | None
    """The caller, as the application will know them."""
    pushed: Mapping[str, Any] | None = None
    """The pushed request that this look-up was for."""


class Encounters(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Services that are being deleted, and their organizations,
    do not exist here.
    """

    async def find(self, client: ClientId, caller: Caller | None) -> AuthorizationEncounter | None:
        """None when no service has this client id."""

    async def find_in_session(self, client: ClientId, session: SessionId, user: UserId, email: str) -> AuthorizationEncounter | None:
        """As `find`, with the person of this session. Whether the session lives is seen when a code is issued and redeemed."""

    async def find_named(self, organization: str, service: str) -> AuthorizationEncounter | None:
        """By the slugs of organization and service."""

    async def find_unplaced(self, client: UnplacedClient, caller: Caller | None) -> AuthorizationEncounter | None:
        """As `find`, for a client that nobody has placed yet, as if it had its service. None when its organization is gone."""

    async def find_pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> AuthorizationEncounter | None:
        """As `find`, with the request that this client has pushed, if it has not expired and no code was issued for it."""


class PushedRequestStore(Protocol):
    async def add(
        self,
        id: PushedRequestId,  # noqa: A002 - the noun's own word
        digest: bytes,
        service: ServiceId | None,
        request: Mapping[str, Json],
        expires_at: datetime,
    ) -> None:
        """One statement and one round trip, outside any unit of work. A client that nobody has placed yet has no service."""
