"""Each connection has its turn every day: its metadata are read again, new certificates count or wait for an owner, and owners are warned
of ends.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.errors import BadRequest, found
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.connections import KeptCertificate, ProviderKind, SamlSettings
from core.domain.identity.upstream.refreshes import (
    AGAIN_AFTER_FAULT,
    LEASE,
    REFRESHED_EVERY,
    REPORTED_AFTER,
    SOON,
    SPREAD,
    URGENT,
    WARNINGS,
    AskedBecause,
    ConnectionEnding,
    Read,
    RefreshFault,
    approved,
    declined,
    directory_end,
    taken,
)
from core.domain.record.events import Actor
from core.domain.saml import due_certificate_warning
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.upstream_providers import (
    UpstreamProvider,
    certificate_decided,
    certificates_changed,
    certificates_wait,
    is_looked_at,
    is_same,
    reading_failed,
    vouched_by_owner,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.connections.lifecycle import DirectoryMetadataReader, NotRead
from core.usecases.tenancy.ownerships import tell_owners
from core.usecases.tenancy.rights import find_members_for_update, require_capability, require_owner
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER
from ports.identity.upstream import ServiceProviderDocuments, UpstreamProtocols
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import Clock
from ports.tenancy.connections import ConnectionRefreshStore, DueConnection
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

# The outcomes besides those of `RefreshFault`.
_READ: Final = "read"
_ASKED: Final = "asked"


class ConnectionRefreshes(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConnectionRefreshStore
    reader: DirectoryMetadataReader
    documents: ServiceProviderDocuments
    protocols: UpstreamProtocols
    templates: MailTemplates
    metrics: Metrics
    clock: Clock
    spread: Callable[[], float]
    base_url: str

    async def claim_due(self, limit: int) -> Sequence[DueConnection]:
        now = self.clock.now()
        due = await self.lookup.claim_due(now, now + LEASE, limit)
        if len(due) < limit:
            # Once in each round.
            counted = await self.lookup.counted(now, now + SOON, now - REPORTED_AFTER, urgent=now + URGENT)
            self.metrics.connections_ending(counted.ending, counted.waiting, counted.failing, urgent=counted.urgent)
        return due

    async def refresh(self, due: DueConnection) -> None:
        """One turn of one connection. Raises `Overloaded` and `Unavailable`: then the next turn comes when the lease ends."""
        if not due.is_active_organization or not is_looked_at(due.provider):
            await self._put_off(due.provider.id)
            return
        try:
            read = await self._look(due.provider)
        except NotRead as failure:
            await self._note(due, failure.fault, failure.detail)
        else:
            await self._take(due, read)
        if due.provider.saml is not None and due.provider.enabled:
            await self._warn_of_ends(due)

    async def _look(self, provider: UpstreamProvider) -> Read | None:
        """None when there is nothing to take. Raises `NotRead`."""
        if provider.kind is ProviderKind.OIDC:
            try:
                await self.protocols.check(provider.issuer)
            except BadRequest as refusal:
                raise NotRead(RefreshFault.ISSUER, refusal.message) from None
            return None
        if provider.saml is None or not provider.saml.metadata_url:
            return None
        return await self.reader.read(provider.saml)

    async def _take(self, due: DueConnection, read: Read | None) -> None:
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            held = await uow.connection_refreshes.find_for_update(due.provider.id)
            if held is None or not is_same(due.provider, held):
                return
            if read is None or held.saml is None:
                await uow.connection_refreshes.read(held, now, self._next_turn(now))
                await uow.commit()
                return
            change = taken(held.saml, held.issuer, read, now)
            if change.fault is None:
                after = vouched_by_owner(held, replace(held, saml=change.settings))
                await uow.connection_refreshes.read(after, now, self._next_turn(now))
                if change.added or change.removed:
                    await uow.record(certificates_changed(after, change))
                if change.asked and change.because is not None:
                    await uow.record(certificates_wait(after, change.asked, change.because))
                    await self._ask_owners(uow, due, change.asked, change.because)
                await uow.commit()
        if change.fault is not None:
            await self._note(due, change.fault)
            return
        self.metrics.connection_refreshed(_READ if change.because is None else _ASKED)
        if change.added or change.removed or change.asked:
            counts = {"added": len(change.added), "removed": len(change.removed), "waiting": len(change.asked)}
            log.info("connection_certificates", connection=str(due.provider.id), **counts)

    async def _note(self, due: DueConnection, fault: RefreshFault, detail: str = "") -> None:
        """The connection goes on with what it has. Owners hear of another directory's metadata at once, and of others after days."""
        now = self.clock.now()
        self.metrics.connection_refreshed(fault.value)
        log.warning("connection_metadata_failed", connection=str(due.provider.id), fault=fault.value, detail=detail)
        async with self.unit_of_work() as uow:
            held = await uow.connection_refreshes.find_for_update(due.provider.id)
            if held is None or not is_same(due.provider, held):
                return
            await uow.connection_refreshes.failed(held.id, fault, now, now + AGAIN_AFTER_FAULT + self._spread(AGAIN_AFTER_FAULT / 6))
            if held.upkeep.fault != fault:
                await uow.record(reading_failed(held, fault))
            since = held.upkeep.failing_since or now
            is_other = fault is RefreshFault.OTHER_ENTITY
            if (is_other or now - since >= REPORTED_AFTER) and await uow.connection_refreshes.warned(
                held.id, ConnectionEnding.ENTITY if is_other else ConnectionEnding.READING, since, 0
            ):
                await self._mail(uow, due, "connection_unread", other_entity=is_other, since=f"{since:%Y-%m-%d}")
            await uow.commit()

    async def _warn_of_ends(self, due: DueConnection) -> None:
        # Every provider of SAML has a certificate of ours. Reading it takes a thread, so it comes before the unit of work.
        ours = due.provider.certificate
        ours_until = (await self.documents.read_certificate(ours)).valid_until
        now = self.clock.now()
        async with self.unit_of_work() as uow:
            held = await uow.connection_refreshes.find_for_update(due.provider.id)
            if held is None or held.saml is None or not held.enabled:
                return
            await uow.connection_refreshes.dated(held.id, ours, ours_until)
            for ending, ends_at in _ends(held.saml, ours_until if held.certificate == ours else None).items():
                days = due_certificate_warning(ends_at, None, now, WARNINGS)
                if days is not None and await uow.connection_refreshes.warned(held.id, ending, ends_at, days):
                    await self._mail(uow, due, "connection_ends", what=ending.value, date=f"{ends_at:%Y-%m-%d}")
            await uow.commit()

    async def approve(self, member: Member, provider: UpstreamProviderId, fingerprint: str, actor: Actor) -> UpstreamProvider:
        """Lets a waiting certificate count. Raises `NotFound`, `BadRequest`, and `Forbidden` for anybody but an owner."""
        return await self._decide(member, provider, fingerprint, actor, approves=True)

    async def decline(self, member: Member, provider: UpstreamProviderId, fingerprint: str, actor: Actor) -> UpstreamProvider:
        """Forgets a waiting certificate. Nobody is asked about it again while the metadata list it. Raises the errors of `approve`."""
        return await self._decide(member, provider, fingerprint, actor, approves=False)

    async def _decide(
        self, member: Member, provider: UpstreamProviderId, fingerprint: str, actor: Actor, *, approves: bool
    ) -> UpstreamProvider:
        async with self.unit_of_work() as uow:
            acting, _ = await find_members_for_update(uow, member)
            require_capability(acting, Capability.SETTINGS_MANAGE)
            await require_owner(uow, acting, self.clock.now())
            held = found(await uow.upstream_providers.find_for_update(member.organization, provider), NO_SUCH_PROVIDER)
            settings = (approved if approves else declined)(held.saml or SamlSettings(), fingerprint)
            after = vouched_by_owner(held, replace(held, saml=settings))
            await uow.connection_refreshes.decided(after)
            await uow.record(certificate_decided(after, fingerprint, actor, approved=approves))
            await uow.commit()
        return after

    async def _put_off(self, provider: UpstreamProviderId) -> None:
        async with self.unit_of_work() as uow:
            await uow.connection_refreshes.put_off(provider, self._next_turn(self.clock.now()))
            await uow.commit()

    async def _ask_owners(
        self, uow: UnitOfWork, due: DueConnection, certificates: Sequence[KeptCertificate], because: AskedBecause
    ) -> None:
        prints = ", ".join(one.fingerprint for one in certificates)
        await self._mail(uow, due, "connection_certificate_waits", reason=because.value, fingerprint=prints)

    async def _mail(self, uow: UnitOfWork, due: DueConnection, template: str, **values: str | bool) -> None:
        provider = due.provider
        owners = await uow.connection_refreshes.owners(provider.organization)
        link = f"{self.base_url}/ui/o/{due.organization_slug}/directories/{provider.id}"
        await tell_owners(uow, self.templates, owners, template, connection=provider.name, link=link, **values)

    def _next_turn(self, now: datetime) -> datetime:
        return now + REFRESHED_EVERY + self._spread(SPREAD)

    def _spread(self, over: timedelta) -> timedelta:
        return over * self.spread()


def _ends(settings: SamlSettings, ours: datetime | None) -> Mapping[ConnectionEnding, datetime]:
    from_file = None if settings.metadata_url else settings.metadata.valid_until
    ends = {ConnectionEnding.DIRECTORY: directory_end(settings), ConnectionEnding.OURS: ours, ConnectionEnding.METADATA: from_file}
    return {ending: at for ending, at in ends.items() if at is not None}
