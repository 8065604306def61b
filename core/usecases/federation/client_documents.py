"""Metadata clients: applications that nobody has registered. An organization gets a service for such a client when the client first asks
for one of its APIs. From then on everything is as with other applications: consents, sessions, refusals and the end of all of it.
"""

from collections.abc import Sequence

import structlog

from core.domain.errors import BadRequest
from core.domain.federation.oauth.client_documents import (
    FETCHES,
    LONGEST_CACHE,
    MOST_CLIENTS,
    PATIENCE,
    UNUSED_AFTER,
    ClientDocument,
    ClientRefused,
    DocumentService,
    DocumentTarget,
    client_document,
    described,
    document_address,
    document_service,
    fresh_for,
    targeted,
)
from core.domain.federation.oauth.oauth_errors import UnauthorizedClient
from core.domain.identifiers import ClientId, ServiceId
from core.domain.record.events import SYSTEM
from core.domain.services.client_ids import document_host, placed, shown
from core.domain.services.services import purge_job, service_created, service_deleted, service_updated
from core.frozen import Frozen
from core.usecases.fetches import not_fetched
from ports.federation.client_documents import DocumentLookup, DocumentSource, SharedFetches
from ports.outbound import OutboundFailed
from ports.rate_limits import SharedBuckets
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()


class ClientDocuments(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: DocumentLookup
    source: DocumentSource
    fetches: SharedFetches
    buckets: SharedBuckets
    system: System

    async def arrived(self, client: str, resources: Sequence[str]) -> ClientId:
        """The placed client id of a metadata client that asks for these APIs, described as its document says now. No transaction is open
        while the document is fetched, and nothing is fetched before the APIs and their organization let its host in. Raises
        `ClientRefused`, `Overloaded`.
        """
        address = document_address(client)
        host = document_host(ClientId(address)) or ""
        named = tuple(dict.fromkeys(resources))
        target = targeted(named, await self.lookup.targets(named, host) if named else (), host)
        document = await self._document(address, host, target)
        return await self._placed(document, target)

    async def holder(self, client: ClientId, digest: bytes) -> ClientId | None:
        """The placed client id of the metadata client to which a code, a refresh token or a pushed request was given. None when it is
        nobody's, or another client's.
        """
        return await self.lookup.holder(client, digest)

    async def renew(self, client: ClientId) -> None:
        """Describes a placed client id as its document says now: keys may have been taken out of it, and a request in another organization
        may have seen that first. While the document cannot be read, what is known counts for `LONGEST_CACHE` more. Raises
        `UnauthorizedClient`, `Overloaded`.
        """
        address = shown(client)
        host = document_host(client) or ""
        found = await self._fresh(address) or await self._shared(address, host, None)
        document = await self._lately(address) if isinstance(found, BadRequest) else found
        if document is None:
            raise UnauthorizedClient(f"client_id: the document at {host} could not be read for more than a day")
        known = await self.lookup.service(client)
        if known is not None and not known.is_described_by(document):
            async with self.unit_of_work() as uow:
                await self._describe(uow, known, document)
                await uow.commit()

    async def _document(self, address: str, host: str, target: DocumentTarget) -> ClientDocument:
        found = await self._fresh(address) or await self._shared(address, host, target)
        if isinstance(found, BadRequest):
            message = f"client_id: the document at {host} {found.message}"
            raise ClientRefused(message, found.words, api=target.id, values={"host": host, **found.values})
        return found

    async def _fresh(self, address: str) -> ClientDocument | None:
        kept = await self.lookup.kept(address)
        return kept.document if kept is not None and kept.fresh_until > self.system.clock.now() else None

    async def _lately(self, address: str) -> ClientDocument | None:
        kept = await self.lookup.kept(address)
        return kept.document if kept is not None and kept.fresh_until + LONGEST_CACHE > self.system.clock.now() else None

    async def _shared(self, address: str, host: str, target: DocumentTarget | None) -> ClientDocument | BadRequest:
        """Without a target, the client is one of an organization already."""

        async def fetched() -> ClientDocument | BadRequest:
            # Another request may have fetched it since this one looked.
            return await self._fresh(address) or await self._fetched(address, host, target)

        return await self.fetches.join(address, fetched)

    async def _fetched(self, address: str, host: str, target: DocumentTarget | None) -> ClientDocument | BadRequest:
        """A document that is refused is neither kept nor remembered."""
        # Anybody can use the fetches of a host up, by made-up addresses there. Each client that is known has fetches of its own.
        newcomer = target if await self.lookup.kept(address) is None else None
        if await self.buckets.take(FETCHES, address if newcomer is None else host):
            busy = BadRequest("was asked for too often; try again in a minute", words="document_busy", values={"host": host})
            return await self._lately(address) or busy
        now = self.system.clock.now()
        try:
            answer = await self.source.fetch(address)
            document = client_document(address, answer.status, answer.headers, answer.body)
        except OutboundFailed as failed:
            reason = not_fetched(failed, "", "it", PATIENCE).message.removeprefix(": ")
            log.info("client_document_not_fetched", host=host, reason=failed.failure.value)
            return BadRequest(f"could not be fetched: {reason}", words="document_unreachable", values={"host": host})
        except BadRequest as refusal:
            return refusal
        try:
            # Anybody can publish documents. Those are kept whose client an organization has, and each has room for some.
            if newcomer is not None:
                await self._placed(document, newcomer)
        except ClientRefused:
            return document
        await self.lookup.keep(document, now, now + fresh_for(answer.headers, now))
        # A fetch that began later may have ended earlier. What it brought counts.
        return await self._fresh(address) or document

    async def _placed(self, document: ClientDocument, target: DocumentTarget) -> ClientId:
        """Only the first request in an organization, and the first after a change of the document, writes."""
        client = placed(document.address, target.organization)
        found = await self.lookup.service(client)
        if found is not None and found.is_described_by(document):
            return client
        async with self.unit_of_work() as uow:
            if not await uow.document_services.hold_organization(target.organization):
                raise ClientRefused("resource: the organization of this API is not active", "application_closed", api=target.id)
            if found is None:
                await self._add(uow, document, target)
            else:
                await self._describe(uow, found, document)
            await uow.commit()
        return client

    async def _add(self, uow: UnitOfWork, document: ClientDocument, target: DocumentTarget) -> None:
        now = self.system.clock.now()
        if await uow.document_services.count(target.organization) >= MOST_CLIENTS:
            slug = await uow.document_services.unused(target.organization, now - UNUSED_AFTER)
            unused = None if slug is None else await uow.services.hold(target.organization, slug)
            if unused is None:
                raise ClientRefused(
                    f"client_id: the organization has {MOST_CLIENTS} clients by document already, and all are in use; delete one first",
                    "documents_full",
                    api=target.id,
                    values={"most": MOST_CLIENTS},
                )
            await uow.services.delete(unused.id, now)
            await uow.jobs.add(purge_job(unused.id))
            await uow.record(service_deleted(unused, SYSTEM))
        service = document_service(document, target.organization, ServiceId(self.system.ids.new()), now)
        # Another request may have added the client while this one waited for the organization.
        if await uow.document_services.add(service, document.digest):
            await uow.record(service_created(service, SYSTEM))

    async def _describe(self, uow: UnitOfWork, known: DocumentService, document: ClientDocument) -> None:
        before = await uow.services.hold(known.organization, known.slug)
        if before is None:
            return
        after = described(before, document, self.system.clock.now())
        # Another request may have done so while this one waited for the service.
        if await uow.document_services.describe(after, document.digest):
            await uow.record(service_updated(before, after, SYSTEM))
