"""Where clients are looked up, and how their assertions are read."""

from collections.abc import Mapping
from typing import Protocol

from core.domain.federation.oauth.clients import RegisteredClient, UsedAssertion
from core.domain.identifiers import ClientId
from core.domain.json import Json


class ClientLookup(Protocol):
    """Outside any unit of work, one statement and one round trip."""

    async def find(self, client: ClientId, secret_digest: bytes | None) -> RegisteredClient | None:
        """The service, and whether it has this secret. None when there is no such service, or it or its organization is being deleted."""


class UsedAssertions(Protocol):
    """Outside any unit of work, one statement and one round trip."""

    async def use(self, client: RegisteredClient, assertion: UsedAssertion) -> bool:
        """False when the assertion has been used before: of two callers, one gets True. Also when the client is gone or closed by now, or
        has other keys, or another address for them.
        """


class ClientAssertions(Protocol):
    """Reads assertions: JSON Web Tokens under a client's own keys."""

    def claimed_client(self, assertion: str) -> str:
        """The client that the assertion names, before anything is verified. Raises `Unauthorized`."""

    def verify(self, assertion: str, keys: Mapping[str, Json]) -> Mapping[str, Json]:
        """The claims, under one of these keys and with an algorithm that the key is for. Raises `Unauthorized`."""
