"""The documents that metadata clients publish, and the services that these clients are in organizations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from core.domain.federation.oauth.client_documents import DocumentService, DocumentTarget, KeptDocument
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.outbound.metadata_clients import Provenance
from core.domain.services.services import Service
from ports.outbound import OutboundAnswer

Result = TypeVar("Result")


class DocumentSource(Protocol):
    """A guarded HTTP client implements it."""

    async def fetch(self, address: str) -> OutboundAnswer:
        """What the address answers. Raises `OutboundFailed`."""


class SharedFetches(Protocol):
    """Work in this process, of which there is one at a time for one key."""

    async def join(self, key: str, work: Callable[[], Awaitable[Result]], organization: str, *, is_known: bool) -> Result:
        """Does the work, or waits for the same work that somebody else does and shares its result. Raises `Overloaded` when too much is
        under way, in all or for this organization. Some of the room is for work on what is known.
        """


class NewDocuments(Protocol):
    """Documents that this process has read lately, of clients that have a place nowhere. It holds some, and may lose them at any time."""

    def find(self, address: str) -> KeptDocument | None: ...

    def keep(self, kept: KeptDocument) -> None: ...


class DocumentLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        """The active APIs with these identifiers, in active organizations. Those on the developer's own machine do not exist here: their
        identifiers name no organization.
        """

    async def kept(self, address: str) -> KeptDocument | None: ...

    async def keep(self, kept: KeptDocument) -> None:
        """Keeps the document, unless a later one is kept."""

    async def service(self, client: ClientId) -> DocumentService | None:
        """The service of a placed client id."""

    async def holder(self, address: str, digest: bytes) -> ClientId | None:
        """The placed client id of the metadata client that a code or a refresh token with this digest was given to. None if there is none,
        or it is another client's.
        """

    async def pushed(self, address: str, digest: bytes) -> Mapping[str, Any] | None:
        """The pushed request with this digest, if it is the metadata client's and has not expired."""


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

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        """As `DocumentLookup.targets`."""

    async def find(self, client: ClientId) -> ServiceId | None:
        """The service of a placed client id."""

    async def add(self, service: Service, digest: bytes) -> None:
        """The caller holds the organization, and the organization has no such client."""

    async def keep(self, kept: KeptDocument) -> None:
        """As `DocumentLookup.keep`."""

    async def describe(self, service: Service, digest: bytes) -> bool:
        """Stores what a document says: name, addresses, keys. False when the service says the same already."""
