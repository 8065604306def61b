"""Actors of the audit log: the linker chains its entries, and the SIEM forwarder sends them to receivers."""

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox, Mishaps, Outage, turned
from core.domain.identity.login_events import SIGN_IN_TOPIC
from core.domain.tenancy.siem import SIEM_TOPIC, Stream
from core.usecases.record import LINKED_AT_ONCE, Audit
from core.usecases.tenancy.receivers.siem import LEASE, NUMBERED_AT_ONCE, Forwarding, SiemExport
from ports.jobs import Doorbell
from ports.metrics import Metrics
from ports.record import SpanKind, Traces, traced

log = structlog.get_logger()


_INTERVAL: Final = 1.0


class AuditLinker:
    """One in each process. A lock in the database lets one of them work at a time, because each link needs the one before it.

    The mailbox gets a message after each commit of this process that wrote an entry. So each process links its own entries, with those of
    others, and no process has to tell another.
    """

    name = "audit_linker"

    def __init__(
        self, audit: Audit, mailbox: Mailbox, doorbell: Doorbell, *, spread: Callable[[], float], interval: float = _INTERVAL
    ) -> None:
        self._audit = audit
        self._mailbox = mailbox
        self._doorbell = doorbell
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turned(pause=self._interval * 1.2)
            self._mailbox.empty()
            linked = await self._outage.wait_out(self._audit.link)
            if linked:
                self._doorbell.ring(SIEM_TOPIC)
            if linked == LINKED_AT_ONCE:
                await trio.lowlevel.checkpoint()
            else:
                await _until_rung(self._mailbox, self._interval, self._spread, others_work=linked is None)


async def _until_rung(mailbox: Mailbox, interval: float, spread: Callable[[], float], *, others_work: bool, part: str = "") -> None:
    """Waits for a message, and then while more gathers. Another process that is at work may have looked before our last row was there, so
    whoever found it at work asks again without a message. The spread keeps the processes from asking in step.
    """
    if not others_work:
        turned(pause=LONGEST_SILENCE, part=part)
        await mailbox.wait(LONGEST_SILENCE * (1 - spread() / 5))
        turned(pause=interval * 1.2, part=part)
    await trio.sleep(interval * (1 + spread() / 5))


# Organizations served at once: in this process, and for those whose last attempt failed. Each hand serves one organization and holds one
# batch in memory.
SIEM_HANDS: Final = 24
HANDS_FOR_FAILING: Final = 8
_POLL: Final = 2.0
_NUMBERING: Final = 1.0
# The seconds that an organization with much to send may go on before it makes room for others.
_TURN: Final = 5.0
# The seconds at shutdown in which leases are given back.
_LAST_WORDS: Final = 1.0


class SiemForwarder:
    """Sends the audit logs and the sign-ins of organizations to the receivers that the organizations have configured. The forwarder also
    numbers sign-ins, and sends them in the order of these numbers.

    One batch of an organization is on its way at a time, and the next batch leaves when the receiver has accepted the last: so the order
    holds, and a receiver that is dead, slow or odd delays no other organization. Delivery is at least once: a batch that was on its way
    when the process died is sent again, with the same numbers.
    """

    name = "siem_forwarder"

    def __init__(
        self,
        export: SiemExport,
        doorbell: Doorbell,
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        poll: float = _POLL,
        numbering: float = _NUMBERING,
        turn: float = _TURN,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._export = export
        self._spread = spread
        self._poll = poll
        self._numbering = numbering
        self._turn = turn
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._free = {False: SIEM_HANDS, True: HANDS_FOR_FAILING}
        self._doorbell = doorbell
        self._mailbox = Mailbox.rung_by(doorbell, SIEM_TOPIC)
        self._sign_ins = Mailbox.rung_by(doorbell, SIGN_IN_TOPIC)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._free = {False: SIEM_HANDS, True: HANDS_FOR_FAILING}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._number)
            task_status.started()
            while True:
                turned(pause=self._poll)
                self._mailbox.empty()
                for failing in (False, True):
                    if self._free[failing]:
                        claim = partial(self._export.claim, self._free[failing], failing=failing)
                        for forwarding in await self._outage.wait_out(claim):
                            self._free[failing] -= 1
                            nursery.start_soon(self._forward, forwarding, failing)
                if not await self._mailbox.wait(self._poll * (1 - self._spread() / 5)):
                    # What waits for its first try has no due time.
                    await self._outage.until_due(self._mailbox, self._export.due_in, sees_all=False)

    async def _number(self) -> None:
        while True:
            turned(pause=self._numbering * 1.2, part="numbering")
            self._sign_ins.empty()
            numbered = await self._outage.wait_out(self._export.number)
            if numbered:
                self._doorbell.ring(SIEM_TOPIC)
            if numbered != NUMBERED_AT_ONCE:
                await _until_rung(self._sign_ins, self._numbering, self._spread, others_work=numbered is None, part="numbering")

    async def _forward(self, forwarding: Forwarding, failing: bool) -> None:  # noqa: FBT001 - a nursery passes no keywords
        began = trio.current_time()
        try:
            # After an outage longer than the lease, another process has the organization, and this process writes nothing.
            with (
                traced(self._traces, SpanKind.CONSUMER, f"turn of {self.name}", (("messaging.destination.name", self.name),)),
                trio.move_on_after(self._turn + LEASE.total_seconds()),
            ):
                await self._take_turn(forwarding)
        except Exception as error:  # noqa: BLE001 - a mishap of this organization must not stop the others
            self._mishaps.tell(error, configuration=str(forwarding.claimed.id))
            await self._put_off(forwarding, partial(_since, began))
        finally:
            self._free[failing] += 1
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                await self._give_back(forwarding)
            # Another organization may wait for the hand, or this one for its next time.
            self._mailbox.post()

    async def _take_turn(self, forwarding: Forwarding) -> None:
        until = trio.current_time() + self._turn
        moved = True
        while moved and trio.current_time() < until:
            moved = False
            for stream in Stream:
                before = forwarding.reached[stream]
                began = trio.current_time()
                if not await self._outage.wait_out(partial(self._export.forward, forwarding, stream, partial(_since, began))):
                    return
                moved = moved or forwarding.reached[stream] != before

    async def _put_off(self, forwarding: Forwarding, elapsed: Callable[[], float]) -> None:
        """Puts the organization off, longer after each failure, as after an attempt that the receiver refused."""
        try:
            with trio.move_on_after(LEASE.total_seconds()):
                await self._outage.wait_out(partial(self._export.broken, forwarding, elapsed))
        except Exception as error:  # noqa: BLE001 - a mishap of this organization must not stop the others
            self._mishaps.tell(error, configuration=str(forwarding.claimed.id))
            # Keeps the hand for the length of a lease, because without a pause the organization would be claimed again at once.
            await trio.sleep(LEASE.total_seconds())

    async def _give_back(self, forwarding: Forwarding) -> None:
        try:
            await self._export.release(forwarding)
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            log.warning("siem_export_left_to_its_lease", configuration=str(forwarding.claimed.id), error=type(error).__name__)


def _since(began: float) -> float:
    return trio.current_time() - began
