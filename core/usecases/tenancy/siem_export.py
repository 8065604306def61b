"""The export to SIEMs: the forwarder sends an organization's batches in order, one at a time, and repeats each until it is received."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.record.deliveries import ATTEMPT_TIMEOUT, BROKEN
from core.domain.tenancy.siem import authentication, siem_destination
from core.domain.tenancy.siem_export import (
    MOST_BYTES,
    Batch,
    Cursor,
    ExportIdentity,
    Stream,
    asked_of,
    head_claims,
    headers_of,
    most_of_a_batch,
    pause_after,
    refusal,
)
from core.frozen import Frozen
from core.usecases.tenancy.siem import SEALED_SHUT, opened
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.heads import HeadSigner
from ports.metrics import Metrics
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.tenancy.siem import ClaimedExport, ExportTarget, SiemQueue

log = structlog.get_logger()

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

    async def number(self) -> int:
        """Number the next sign-ins. Returns how many there were, at most `NUMBERED_AT_ONCE`."""
        return await self.queue.number(NUMBERED_AT_ONCE)

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
