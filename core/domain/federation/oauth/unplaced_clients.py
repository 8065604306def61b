"""A client that nobody has placed yet: an organization's rules let it in, and no person has allowed it there. It has no service, so all
that is made of its request keeps what the client says of itself. The consent of the first person makes the service, the event and the
place.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from core.domain.federation.oauth.client_documents import ClientDocument, KeptDocument, document_service, document_slug, restored
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.identity.sessions import Context
from core.domain.json import Json
from core.domain.rate_limits import RateLimit
from core.domain.services.client_ids import placed
from core.domain.services.services import Service, ServiceType
from core.domain.signing_keys import TokenAlgorithm
from core.frozen import Frozen

PLACES_OF_PERSON: Final = RateLimit("client_places", burst=20, seconds_per_request=86_400)
"""A person gives so many new clients a place on one day, in all organizations together. The bucket is of one day, and does not fill within
it."""


class UnplacedClient(Frozen, kw_only=True):
    service: ServiceId
    """The id of the service that the client gets from the first person who allows it."""
    organization: OrganizationId
    organization_slug: str
    api: ResourceServerId
    """The first API that the request names."""
    resources: Sequence[str]
    """The identifiers of all of them."""
    kept: KeptDocument
    """What the client says of itself."""

    @property
    def document(self) -> ClientDocument:
        return self.kept.document

    @property
    def id(self) -> ClientId:
        return placed(self.document.address, self.organization)

    def placed_at(self, now: datetime) -> Service:
        return document_service(self.document, self.organization, self.service, now)

    def registered(self) -> RegisteredClient:
        """The client as the endpoints of clients know it."""
        document, slug = self.document, document_slug(self.document, self.service)
        return RegisteredClient(
            client=ClientId(document.address),
            context=Context(self.organization, self.organization_slug, self.service, slug),
            service=self.service,
            organization=self.organization,
            organization_is_active=True,
            service_type=ServiceType.METADATA,
            id_token_algorithm=TokenAlgorithm.RS256,
            access_token_algorithm=TokenAlgorithm.ES256,
            keys=document.stored_keys,
            has_secret=False,
            secret=None,
            keys_uri=document.keys_uri,
            is_agent=True,
            binds_tokens=document.dpop_bound_access_tokens,
            is_placed=False,
        )


class ArrivedClient(Frozen):
    """A metadata client whose request names APIs of one organization."""

    id: ClientId
    """The placed client id."""
    unplaced: UnplacedClient | None = None
    """None for a client that has a service in the organization."""


def bucket_of_day(person: UserId, now: datetime) -> str:
    return f"{person} {now:%Y-%m-%d}"


def described(kept: KeptDocument) -> Mapping[str, Json]:
    """The form in which a flow or a pushed request keeps what the client says of itself."""
    times = {"fetched_at": kept.fetched_at.isoformat(), "fresh_until": kept.fresh_until.isoformat()}
    return {"document": kept.document.stored(), **times}


def described_before(address: str, stored: Mapping[str, Any] | None) -> KeptDocument | None:
    """Reads the form that `described` made."""
    if stored is None:
        return None
    fetched_at, fresh_until = (datetime.fromisoformat(stored[name]) for name in ("fetched_at", "fresh_until"))
    return KeptDocument(restored(address, stored["document"]), fetched_at, fresh_until)
