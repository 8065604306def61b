"""The provisioner: provisions users to the systems of applications."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog
import trio

from actors.foundation import Mailbox, Mishaps, Outage, turned
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.provisioning.runs import ProvisioningWork
from ports.metrics import Metrics

log = structlog.get_logger()

# "Within a minute" includes the look and the run.
_INTERVAL: Final = 30.0
_PLACES: Final = 8
# A turn ends by itself, with the answer that is under way. This is for one that does not.
_LONGEST: Final = 600.0
# Calls to one system at a time.
_CALLS: Final = 4
_SHORTEST_BREATH: Final = 0.005
_LONGEST_BREATH: Final = 0.25


class ProvisionerPace:
    """Implements `ports.federation.provisioning_runs.ProvisioningPace`. `turn` waits for a round of the event loop that has room."""

    def __init__(self, turn: Callable[[], Awaitable[None]]) -> None:
        self._turn = turn

    async def turn(self) -> None:
        await self._turn()
        await trio.lowlevel.checkpoint()

    async def rest(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def breathe(self) -> None:
        began = trio.current_time()
        await trio.lowlevel.checkpoint()
        # A round takes long when others have work.
        await trio.sleep(min(max(_SHORTEST_BREATH, 4 * (trio.current_time() - began)), _LONGEST_BREATH))

    async def together(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        places = trio.CapacityLimiter(_CALLS)
        failed: list[Exception] = []

        async def one(work: Callable[[], Awaitable[None]]) -> None:
            async with places:
                # After a failure nothing more begins.
                if failed:
                    return
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - raised below, when those that were under way have ended
                    failed.append(error)

        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(one, work)
        if failed:
            raise failed[0]


class KeptProvisioning(Protocol):
    """The use case that owns the runs."""

    async def claim_due(self, limit: int) -> Sequence[ProvisioningWork]: ...

    async def run(self, work: ProvisioningWork, /) -> None: ...

    async def give_up(self, work: ProvisioningWork, /) -> None: ...


class Provisioner:
    """A connection that is due has a place for a turn of two minutes, and what is left of its run continues in another turn, behind all
    that wait. Within a turn, a run pauses after each page for as long as that took.
    """

    name = "provisioner"

    def __init__(
        self,
        provisioning: KeptProvisioning,
        mailbox: Mailbox,
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        interval: float = _INTERVAL,
    ) -> None:
        self._provisioning = provisioning
        self._mailbox = mailbox
        self._spread = spread
        self._interval = interval
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._places = trio.Semaphore(_PLACES)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                turned(pause=self._interval * 1.2)
                self._mailbox.empty()
                free = self._places.value
                if free:
                    for work in await self._outage.wait_out(lambda free=free: self._provisioning.claim_due(free)):  # type: ignore[misc]
                        await self._places.acquire()
                        nursery.start_soon(self._one, work)
                await self._mailbox.wait(self._interval * (1 + self._spread() / 5))

    async def _one(self, work: ProvisioningWork) -> None:
        about = {"connection": str(work.connection)}
        try:
            with trio.move_on_after(_LONGEST) as scope:
                await self._provisioning.run(work)
            if scope.cancelled_caught:
                log.warning("provisioning_run_too_long", **about)
                await self._provisioning.give_up(work)
        except (Unavailable, Overloaded) as error:
            log.warning("provisioning_run_left", actor=self.name, detail=error.detail, **about)
        except Exception as error:  # noqa: BLE001 - a mishap of this connection must not stop the others
            self._mishaps.tell(error, **about)
        finally:
            self._places.release()
            # Whatever waits for a place does not wait for the clock.
            self._mailbox.post()
