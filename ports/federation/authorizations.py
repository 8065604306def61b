"""Who meets whom when an application sends somebody here, and where pushed requests are kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.identifiers import ClientId, PushedRequestId, ServiceId
from core.domain.identity.callers import Caller
from core.domain.json import Json
from core.frozen import Frozen


class AuthorizationEncounter(Frozen):
    application: RequestingApplication
    signed_in: SignedInPerson | None
    """The caller that was asked with, as the application will know them."""
    pushed: Mapping[str, Any] | None = None
    """The pushed request that was taken."""


class Encounters(Protocol):
    """Outside any unit of work: one statement, one round trip. Services that are being deleted, and their organizations, do not exist."""

    async def find(self, client: ClientId, caller: Caller | None) -> AuthorizationEncounter | None:
        """None when no service has this client id."""

    async def find_named(self, organization: str, service: str) -> AuthorizationEncounter | None:
        """By their slugs."""

    async def take_pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> AuthorizationEncounter | None:
        """The same, and the request that this client has pushed. It is gone then: of many at once, one finds it."""


class PushedRequestStore(Protocol):
    async def add(self, id: PushedRequestId, digest: bytes, service: ServiceId, request: Mapping[str, Json], expires_at: datetime) -> None:  # noqa: A002 - the noun's own word
        """One statement, outside any unit of work."""
