"""Metadata clients: applications that nobody has registered."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from core.domain.errors import BadRequest, Overloaded
from core.domain.federation.oauth.client_documents import (
    FETCHES,
    LONGEST_CACHE,
    PATIENCE,
    ClientDocument,
    ClientRefused,
    DocumentService,
    DocumentTarget,
    KeptDocument,
    client_document,
    described,
    document_address,
    fresh_for,
    targeted,
)
from core.domain.federation.oauth.consents import ArrivedClient, UnplacedClient, described_before
from core.domain.federation.oauth.refusals import UnauthorizedClient
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ServiceId
from core.domain.outbound import Provenance
from core.domain.record.events import SYSTEM
from core.domain.services.clients import document_host, is_open, place_of, placed, shown
from core.domain.services.services import service_updated
from core.frozen import Frozen
from core.usecases.federation.clients import OpenRegistrations
from core.usecases.fetches import not_fetched
from ports.federation.oauth import DocumentLookup, DocumentSource, NewDocuments, SharedFetches
from ports.outbound import OutboundFailed
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()


class ClientDocuments(Frozen):
    """An organization gets an application for such a client when a user first allows the client there (`consents.py`). From then on it is
    like any other application: consents, sessions, refusals and their end.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: DocumentLookup
    source: DocumentSource
    fetches: SharedFetches
    new: NewDocuments
    buckets: SharedBuckets
    registrations: OpenRegistrations
    system: System

    async def arrived(self, client: str, resources: Sequence[str], seen: Mapping[str, Json] | None = None) -> ArrivedClient:
        """A metadata client that asks for these APIs, described as its document says now. `seen` is what a flow or a pushed request has
        kept of a client that nobody had placed yet. No transaction is open while the document is fetched, and nothing is fetched before the
        APIs and their organization let its host in. Raises `ClientRefused`, `Overloaded`.
        """
        named = tuple(dict.fromkeys(resources))
        if is_open(client):
            return await self._registered(client, named)
        address = document_address(client)
        host = document_host(ClientId(address)) or ""
        target = await self._targeted(named, Provenance(host))
        known = await self.lookup.kept(address)
        found = await self._described(address, host, target, known, described_before(address, seen))
        arrived = await self._found(found, target, named)
        if known is None and arrived.unplaced is None:
            # A client that came from another installation, or that nobody has used for a month.
            await self.lookup.keep(found)
        return arrived

    async def holder(self, client: ClientId, digest: bytes) -> ClientId | None:
        """The placed client id of the metadata client to which a code or a refresh token was given. None when it is nobody's, or another
        client's.
        """
        return await self.lookup.holder(client, digest)

    async def pushed(self, client: ClientId, digest: bytes) -> Mapping[str, Json] | None:
        """The request that the metadata client has pushed. None when it is nobody's, or another client's."""
        return await self.lookup.pushed(client, digest)

    async def renew(self, client: ClientId) -> None:
        """Describes a placed client id as its document says now: keys may have been taken out of it, and a request in another organization
        may have seen that first. While the document cannot be read, what is known counts for `LONGEST_CACHE` more. An open client says
        the same for good, as long as its id counts. Raises `UnauthorizedClient`, and `Overloaded` if nothing is known lately.
        """
        address = shown(client)
        if is_open(address):
            await self._require_registered(address)
            return
        host = document_host(client) or ""
        found = await self._fresh(address) or await self._known(address, host, place_of(client))
        document = await self._lately(address) if isinstance(found, BadRequest) else found
        if document is None:
            raise UnauthorizedClient(f"client_id: the document at {host} could not be read for more than a day")
        known = await self.lookup.service(client)
        if known is not None and not known.is_described_by(document.document):
            await self._describe(known, document.document)

    async def _targeted(self, named: Sequence[str], client: Provenance) -> DocumentTarget:
        return targeted(named, await self.lookup.targets(named, client) if named else (), client)

    async def _registered(self, client: str, named: Sequence[str]) -> ArrivedClient:
        """An open client. An id that we have not signed costs no look-up."""
        document = await self.registrations.read(client)
        target = await self._targeted(named, document.provenance)
        now = self.system.clock.now()
        return await self._found(KeptDocument(document, now, now), target, named)

    async def _require_registered(self, client: ClientId) -> None:
        try:
            await self.registrations.read(client)
        except ClientRefused as refusal:
            raise UnauthorizedClient(refusal.message) from None

    async def _described(
        self, address: str, host: str, target: DocumentTarget, known: KeptDocument | None, seen: KeptDocument | None
    ) -> KeptDocument:
        for one in (known,) if known is not None else (seen, self.new.find(address)):
            if one is not None and one.fresh_until > self.system.clock.now():
                return one
        organization = str(target.organization)
        found = await (self._new(address, host, organization) if known is None else self._known(address, host, organization))
        if isinstance(found, BadRequest):
            message = f"client_id: the document at {host} {found.message}"
            raise ClientRefused(message, found.words, api=target.id, values={"host": host, **found.values})
        return found

    async def _fresh(self, address: str) -> KeptDocument | None:
        kept = await self.lookup.kept(address)
        return kept if kept is not None and kept.fresh_until > self.system.clock.now() else None

    async def _lately(self, address: str) -> KeptDocument | None:
        kept = await self.lookup.kept(address)
        return kept if kept is not None and kept.fresh_until + LONGEST_CACHE > self.system.clock.now() else None

    async def _new(self, address: str, host: str, organization: str) -> KeptDocument | BadRequest:
        """The document of a client that has a place nowhere. No row keeps it: anybody can publish documents. Anybody can also use the
        fetches of a host up, by made-up addresses there.
        """

        async def fetched() -> KeptDocument | BadRequest:
            # Somebody may have allowed the client since this request looked.
            if (fresh := await self._fresh(address)) is not None:
                return fresh
            found = await self._fetched(address, host, counted_by=host)
            if isinstance(found, KeptDocument):
                self.new.keep(found)
            return found

        return await self.fetches.join(address, fetched, organization, is_known=False)

    async def _known(self, address: str, host: str, organization: str) -> KeptDocument | BadRequest:
        """The document of a client that has a place somewhere. It has fetches of its own, and what is known lately counts while the process
        or the bucket has none left.
        """

        async def fetched() -> KeptDocument | BadRequest:
            # Another request may have fetched it since this one looked.
            if (fresh := await self._fresh(address)) is not None:
                return fresh
            found = await self._fetched(address, host, counted_by=address)
            if isinstance(found, BadRequest):
                return (await self._lately(address) or found) if found.words == _BUSY else found
            await self.lookup.keep(found)
            # A fetch that began later may have ended earlier. What it brought counts.
            return await self._fresh(address) or found

        try:
            return await self.fetches.join(address, fetched, organization, is_known=True)
        except Overloaded:
            lately = await self._lately(address)
            if lately is None:
                raise
            return lately

    async def _fetched(self, address: str, host: str, *, counted_by: str) -> KeptDocument | BadRequest:
        """A document that is refused is neither kept nor remembered."""
        if await self.buckets.take(FETCHES, counted_by):
            return BadRequest("was requested too often; try again in 1 minute", words=_BUSY, values={"host": host})
        now = self.system.clock.now()
        try:
            answer = await self.source.fetch(address)
            document = client_document(address, answer.status, answer.headers, answer.body)
            return KeptDocument(document, now, now + fresh_for(answer.headers, now))
        except OutboundFailed as failed:
            reason = not_fetched(failed, "", "it", PATIENCE).message.removeprefix(": ")
            log.info("client_document_not_fetched", host=host, reason=failed.failure.value)
            return BadRequest(f"could not be fetched: {reason}", words="document_unreachable", values={"host": host})
        except BadRequest as refusal:
            return refusal

    async def _found(self, kept: KeptDocument, target: DocumentTarget, resources: Sequence[str]) -> ArrivedClient:
        """Writes only after a change of the document of a client that has a place."""
        client = placed(kept.document.address, target.organization)
        found = await self.lookup.service(client)
        if found is None:
            unplaced = UnplacedClient(
                service=ServiceId(self.system.ids.new()),
                organization=target.organization,
                organization_slug=target.organization_slug,
                api=target.id,
                resources=resources,
                kept=kept,
            )
            return ArrivedClient(client, unplaced)
        if not found.is_described_by(kept.document):
            await self._describe(found, kept.document)
        return ArrivedClient(client)

    async def _describe(self, known: DocumentService, document: ClientDocument) -> None:
        async with self.unit_of_work() as uow:
            before = await uow.services.hold(known.organization, known.slug)
            if before is None:
                return
            after = described(before, document, self.system.clock.now())
            # Another request may have done so while this one waited for the service.
            if await uow.document_services.describe(after, document.digest):
                await uow.record(service_updated(before, after, SYSTEM))
                await uow.commit()


_BUSY: Final = "document_busy"
