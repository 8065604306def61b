"""The SIEM exports of an organization: their configuration, and the batches that the forwarder sends in order."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.errors import BadRequest, Forbidden, found
from core.domain.identifiers import SiemId
from core.domain.outbound import OutboundDestination
from core.domain.record.deliveries import ATTEMPT_TIMEOUT, BROKEN, ReceiverKind
from core.domain.record.events import Actor
from core.domain.requests import Unchanged
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.siem import (
    BATCH_SIZE,
    MOST_BYTES,
    Batch,
    Cursor,
    ExportIdentity,
    SiemConfiguration,
    SiemCredentials,
    SiemProvider,
    Stream,
    asked_of,
    authentication,
    credential,
    head_claims,
    headers_of,
    keeps_credentials,
    most_of_a_batch,
    pause_after,
    provider_named,
    refusal,
    require_usable,
    sealing_context,
    siem_batch_size,
    siem_configured,
    siem_destination,
    siem_name,
    siem_removed,
    siem_tested,
    test_body,
)
from core.frozen import Frozen, replace
from core.usecases.outbound_reach import OutboundReach
from core.usecases.tenancy.rights import hold_rights
from ports.crypto import CannotOpen, HeadSigner, KeyRing
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.system import Clock, System
from ports.tenancy.receivers import ClaimedExport, ExportTarget, ShownSiem, SiemQueue, SiemStore, Stored
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

SEALED_SHUT = "the credentials cannot be opened: send them again"


class Tried(Frozen):
    success: bool
    message: str


class Siem(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SiemStore
    outbound: Outbound
    keyring: KeyRing
    heads: HeadSigner
    system: System

    async def get(self, member: Member) -> ShownSiem:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization), _NONE)

    async def configure(
        self,
        member: Member,
        actor: Actor,
        *,
        name: str,
        provider_type: str,
        endpoint_url: str,
        api_key: str | Unchanged | None,
        auth_header: str | Unchanged | None,
        batch_size: int | None,
        is_active: bool | None,
    ) -> ShownSiem:
        """Makes the configuration, or replaces the present one; the export goes on where it stopped. `Unchanged` credentials stay if the
        provider and the host stay; any other field that is None gets the default of a new configuration. Raises `BadRequest`.
        """
        to = siem_destination(endpoint_url)
        if not self.outbound.may_call(to):
            raise BadRequest(
                "endpoint_url: this address is not public, and the operator of this installation has not allowed it",
                words="address_not_public",
            )
        provider = provider_named(provider_type)
        now = self.system.clock.now()
        wanted = SiemConfiguration(
            id=SiemId(self.system.ids.new()),
            organization=member.organization,
            name=siem_name(name),
            provider=provider,
            endpoint_url=endpoint_url,
            batch_size=BATCH_SIZE if batch_size is None else siem_batch_size(batch_size),
            is_active=is_active is not False,
            has_credentials=False,
            created_at=now,
            updated_at=now,
        )
        for field, given in (("api_key", api_key), ("auth_header", auth_header)):
            if not isinstance(given, Unchanged):
                credential(field, given)
        async with self.unit_of_work() as uow:
            await _hold(uow, member)
            before = await uow.siem.hold(member.organization)
            credentials = _credentials(self._kept(before, provider, to, api_key, auth_header), api_key, auth_header)
            configuration = _in_place_of(before, wanted, has_credentials=bool(credentials))
            sealed = self.keyring.seal(credentials.text(), sealing_context(configuration.id)) if credentials else None
            await uow.siem.save(configuration, sealed)
            await uow.record(siem_configured(configuration, actor))
            health = await uow.siem.health(configuration.id)
            await uow.commit()
        return ShownSiem(configuration, health)

    async def remove(self, member: Member, actor: Actor) -> None:
        """Removes the configuration. Entries that are not sent yet are not sent; a batch under way may still arrive. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.INTEGRATIONS_MANAGE)
            removed = found(await uow.siem.hold(member.organization), _NONE)
            await uow.siem.delete(removed.configuration.id)
            await uow.record(siem_removed(removed.configuration, actor))
            await uow.commit()

    async def test(self, member: Member, actor: Actor) -> Tried:
        """Sends something that is no entry, once. Raises `NotFound`, `BadRequest` when it is disabled."""
        async with self.unit_of_work() as uow:
            await _hold(uow, member)
            stored = found(await uow.siem.hold(member.organization), _NONE)
            configuration = stored.configuration
            if not configuration.is_active:
                raise BadRequest("The export is disabled: enable it first", words="siem_disabled")
            await uow.record(siem_tested(configuration, actor))
            await uow.commit()
        refused = await self._refused(stored)
        log.info("siem_tested", configuration=str(configuration.id), error=refused)
        return Tried(success=True, message="The receiver accepted it") if refused is None else Tried(success=False, message=refused)

    async def _refused(self, stored: Stored) -> str | None:
        configuration = stored.configuration
        try:
            credentials = opened(self.keyring, configuration.id, stored.sealed_credentials)
        except CannotOpen as error:
            log.error("siem_credentials_unreadable", configuration=str(configuration.id), error=str(error))  # noqa: TRY400 - says it all
            return SEALED_SHUT
        return await self.refused(configuration, credentials)

    async def refused(self, configuration: SiemConfiguration, credentials: SiemCredentials) -> str | None:
        """Sends something that is no entry. Returns why the receiver did not take it; None when it did."""
        body = test_body(configuration.provider, ExportIdentity(configuration.organization, configuration.id), self.system.clock.now())
        headers = headers_of(configuration.provider, authentication(configuration.provider, credentials))
        to = asked_of(configuration.provider, siem_destination(configuration.endpoint_url))
        try:
            answer = await self.outbound.post(OutboundRequest(to, body, headers), ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            return failed.failure.value
        return refusal(configuration.provider, answer.status, answer.body)

    def _kept(
        self,
        before: Stored | None,
        provider: SiemProvider,
        to: OutboundDestination,
        *given: str | Unchanged | None,
    ) -> SiemCredentials:
        """What there was, if anything of it may stay."""
        unchanged = any(isinstance(one, Unchanged) for one in given)
        if before is None or not unchanged or not keeps_credentials(before.configuration, provider, to):
            return SiemCredentials()
        try:
            return opened(self.keyring, before.configuration.id, before.sealed_credentials)
        except CannotOpen:
            raise BadRequest(f"api_key: {SEALED_SHUT}", words="secret_unreadable") from None


_NONE = "The organization exports to no SIEM"


def opened(keyring: KeyRing, configuration: SiemId, sealed: bytes | None) -> SiemCredentials:
    """Raises `CannotOpen`."""
    return SiemCredentials() if sealed is None else SiemCredentials.read(keyring.open(sealed, sealing_context(configuration)))


def _credentials(kept: SiemCredentials, api_key: str | Unchanged | None, auth_header: str | Unchanged | None) -> SiemCredentials:
    credentials = SiemCredentials(
        kept.api_key if isinstance(api_key, Unchanged) else credential("api_key", api_key),
        kept.auth_header if isinstance(auth_header, Unchanged) else credential("auth_header", auth_header),
    )
    require_usable(credentials)
    return credentials


def _in_place_of(before: Stored | None, wanted: SiemConfiguration, *, has_credentials: bool) -> SiemConfiguration:
    if before is None:
        return replace(wanted, has_credentials=has_credentials)
    there = before.configuration
    return replace(wanted, id=there.id, created_at=there.created_at, has_credentials=has_credentials)


async def _hold(uow: UnitOfWork, member: Member) -> None:
    """Requires the right to read the audit log as well: a member who chooses the receiver of the audit log can read it there."""
    held = await hold_rights(uow, member, Capability.INTEGRATIONS_MANAGE)
    if Capability.AUDIT_LOGS_VIEW not in held:
        raise Forbidden


# A lease lasts longer than one batch takes: from the last check that the batch may leave until its receipt is recorded.
LEASE: Final = timedelta(seconds=60)
# The most sign-ins to which one statement gives sequence numbers.
NUMBERED_AT_ONCE: Final = 500
# The most entries that are hashed and serialized in one turn of the event loop.
_MADE_AT_ONCE: Final = 20


@dataclass(slots=True)
class Forwarding:
    """A claimed export and its progress under this lease."""

    claimed: ClaimedExport
    reached: dict[Stream, Cursor]
    failures: int
    due_at: datetime

    @classmethod
    def of(cls, claimed: ClaimedExport) -> "Forwarding":
        return cls(claimed, dict(claimed.cursors), claimed.failures, claimed.due_at)

    @property
    def export(self) -> ExportIdentity:
        return ExportIdentity(self.claimed.organization, self.claimed.id)


class SiemExport(Frozen):
    """`breathe` lets other tasks of the event loop run."""

    queue: SiemQueue
    outbound: Outbound
    keyring: KeyRing
    heads: HeadSigner
    issuer: str
    metrics: Metrics
    clock: Clock
    spread: Callable[[], float]
    breathe: Callable[[], Awaitable[None]]
    reach: OutboundReach

    async def number(self) -> int | None:
        """Number the next sign-ins. Returns how many there were, at most `NUMBERED_AT_ONCE`, and None when another process is numbering."""
        return await self.queue.number(NUMBERED_AT_ONCE)

    async def due_in(self) -> float | None:
        """The seconds until an export can be claimed of which the doorbell does not tell. None when there is none."""
        return await self.queue.due_in()

    async def claim(self, limit: int, *, failing: bool) -> Sequence[Forwarding]:
        """Claim exports for the forwarder, which releases each of them again."""
        return [Forwarding.of(claimed) for claimed in await self.queue.claim(limit, LEASE, failing=failing)]

    async def forward(self, forwarding: Forwarding, stream: Stream, elapsed: Callable[[], float]) -> bool:
        """Send the next batch of one stream, if there are entries. Returns False when the forwarder must send nothing more under this
        lease. `elapsed` tells the seconds of the attempt so far.
        """
        batch = await self._next(forwarding, stream)
        if batch is None:
            return True
        now = self.clock.now()
        body = batch.body(await self.heads.sign(head_claims(forwarding.export, stream, batch.end, now, self.issuer)), now)
        await self.breathe()
        # Read the configuration last, so that a member's change of a moment ago already applies to this batch.
        held = await self.queue.hold(forwarding.claimed, LEASE)
        if held is None:
            return False
        refused, retry_after = await self._post(forwarding, held, body)
        waited = max(0.0, (now - max(forwarding.due_at, batch.oldest or forwarding.due_at)).total_seconds())
        received = 0 if refused is not None else len(batch)
        self.metrics.siem_attempted("received" if refused is None else "failed", elapsed(), waited, received)
        self.reach.attempted(ReceiverKind.SIEM, forwarding.claimed.id, forwarding.claimed.organization, received=refused is None)
        log.info(
            "siem_attempted",
            configuration=str(forwarding.claimed.id),
            stream=stream.value,
            entries=len(batch),
            end=batch.end.sequence,
            error=refused,
            failures=forwarding.failures,
        )
        if refused is not None:
            pause = pause_after(forwarding.failures, self.spread(), retry_after, self.clock.now())
            await self.queue.failed(forwarding.claimed, refused, pause)
            return False
        at = self.clock.now()
        if not await self.queue.received(forwarding.claimed, stream, batch.end, at):
            return False
        forwarding.due_at = at
        forwarding.reached[stream] = batch.end
        forwarding.failures = 0
        return True

    async def _next(self, forwarding: Forwarding, stream: Stream) -> Batch | None:
        after = forwarding.reached[stream]
        most = most_of_a_batch(forwarding.claimed.provider, forwarding.claimed.batch_size, forwarding.failures)
        entries = await self.queue.entries(forwarding.claimed, stream, after.sequence, most, MOST_BYTES)
        batch = Batch(forwarding.claimed.provider, forwarding.export, stream, after, self.clock.now())
        for number, one in enumerate(entries, 1):
            batch.add(one)
            if number % _MADE_AT_ONCE == 0:
                await self.breathe()
        return batch if entries else None

    async def _post(self, forwarding: Forwarding, held: ExportTarget, body: bytes) -> tuple[str | None, str | None]:
        """The reason of the refusal, None when the receiver took the batch; and the receiver's `Retry-After`."""
        try:
            credentials = opened(self.keyring, forwarding.claimed.id, held.sealed_credentials)
        except CannotOpen as error:
            log.error("siem_credentials_unreadable", configuration=str(forwarding.claimed.id), error=str(error))  # noqa: TRY400 - says it all
            return SEALED_SHUT, None
        provider = forwarding.claimed.provider
        to = asked_of(provider, siem_destination(held.endpoint_url))
        headers = headers_of(provider, authentication(provider, credentials))
        try:
            answer = await self.outbound.post(OutboundRequest(to, body, headers), ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            return failed.failure.value, None
        return refusal(provider, answer.status, answer.body), answer.headers.get("retry-after")

    async def broken(self, forwarding: Forwarding, elapsed: Callable[[], float]) -> None:
        """Record a batch that raised an unexpected error: the batch does not count as received. May be repeated while the lease lasts."""
        self.metrics.siem_attempted("failed", elapsed(), 0.0, 0)
        pause = pause_after(forwarding.failures, self.spread(), None, self.clock.now())
        await self.queue.failed(forwarding.claimed, BROKEN, pause)

    async def release(self, forwarding: Forwarding) -> None:
        await self.queue.release(forwarding.claimed)
