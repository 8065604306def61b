"""Look-ups of clients, and the reading of their assertions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from core.domain.federation.oauth.clients import RegisteredClient, UsedAssertion
from core.domain.identifiers import ClientId
from core.domain.json import Json


class ClientLookup(Protocol):
    """Look-ups of many requests share one statement and one round trip, outside any unit of work."""

    async def find(self, client: ClientId, secret_digest: bytes | None) -> RegisteredClient | None:
        """The client, and whether it has this secret. None when there is no such service, or the service or its organization is being
        deleted.
        """


class UsedAssertions(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def use(self, client: RegisteredClient, assertion: UsedAssertion) -> bool:
        """False when the assertion has been used before: of two callers, one gets True. False also when the client is gone or closed by
        now, or has other keys, or another address for them. A client that nobody has placed yet has no service to look at.
        """


class ClientAssertions(Protocol):
    """Reads assertions: JSON Web Tokens under a client's own keys. A library implements it."""

    def claimed_client(self, assertion: str) -> str:
        """The client that the assertion names, before anything is verified. Raises `Unauthorized`."""

    def verify(self, assertion: str, keys: Mapping[str, Json], algorithms: Mapping[str, Sequence[str]]) -> Mapping[str, Json]:
        """The claims, verified under one of these keys with one of the algorithms for its kind of key. Raises `Unauthorized`."""
