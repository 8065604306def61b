"""The documents that metadata clients publish, and the services that these clients are in organizations."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from core.domain.federation.oauth.client_documents import ClientDocument, DocumentService, DocumentTarget, KeptDocument
from core.domain.identifiers import ClientId, OrganizationId
from core.domain.services.services import Service
from ports.outbound import OutboundAnswer

Result = TypeVar("Result")


class DocumentSource(Protocol):
    """A guarded HTTP client implements it."""

    async def fetch(self, address: str) -> OutboundAnswer:
        """What the address answers. Raises `OutboundFailed`."""


class SharedFetches(Protocol):
    """Work in this process, of which there is one at a time for one key."""

    async def join(self, key: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Does the work, or waits for the same work that somebody else does and shares its result. Raises `Overloaded` when too much is
        under way.
        """


class DocumentLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def targets(self, identifiers: Sequence[str], host: str) -> Sequence[DocumentTarget]:
        """The active APIs with these identifiers, in active organizations. Those on the developer's own machine do not exist here: their
        identifiers name no organization.
        """

    async def kept(self, address: str) -> KeptDocument | None: ...

    async def keep(self, document: ClientDocument, fetched_at: datetime, fresh_until: datetime) -> None:
        """Keeps the document, unless a later one is kept."""

    async def service(self, client: ClientId) -> DocumentService | None:
        """The service of a placed client id."""

    async def holder(self, address: str, digest: bytes) -> ClientId | None:
        """The placed client id of the metadata client that a code, a refresh token or a pushed request with this digest was given to. None
        if there is none, or it is another client's.
        """


class DocumentServiceStore(Protocol):
    """For one unit of work, which ends at once."""

    async def hold_organization(self, organization: OrganizationId) -> bool:
        """Locks the organization. False when it is not active."""

    async def count(self, organization: OrganizationId) -> int:
        """How many metadata clients the organization has."""

    async def unused(self, organization: OrganizationId, before: datetime) -> str | None:
        """The slug of the metadata client that was not described anew for the longest time, before this moment, that no person allows
        anything, that has neither sessions nor codes, and about which no owner has decided anything.
        """

    async def add(self, service: Service, digest: bytes) -> bool:
        """False when the organization has the client already."""

    async def describe(self, service: Service, digest: bytes) -> bool:
        """Stores what a document says: name, addresses, keys. False when the service says the same already."""
