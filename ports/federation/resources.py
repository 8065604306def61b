"""The look-up of the APIs that a request names."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.oauth.resources import OfferedResource
from core.domain.federation.oauth.unplaced_clients import UnplacedClient
from core.domain.identifiers import ServiceId, UserId


class ResourceLookup(Protocol):
    async def find(self, service: ServiceId, identifiers: Sequence[str], user: UserId | None) -> Sequence[OfferedResource]:
        """The APIs with these identifiers that are active, belong to the organization of the service, and admit it. Other APIs do not exist
        here. With a user, each API says which of its scopes the user may have, and which the user has allowed the service. One statement
        and one round trip, outside any unit of work.
        """

    async def find_for(self, client: UnplacedClient, user: UserId | None) -> Sequence[OfferedResource]:
        """The same for a client that nobody has placed yet, and the APIs that its request names: those that let its document in."""
