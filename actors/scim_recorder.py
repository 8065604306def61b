"""The flight recorder of directories: exchanges are gathered and written once a second, so that no request waits for them."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog
import trio

from actors.failures import Mishaps
from actors.outages import Outage
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.scim.exchanges import ScimExchange
from core.domain.identifiers import OrganizationId
from ports.federation.scim.exchanges import ScimExchangeStore
from ports.metrics import Metrics

log = structlog.get_logger()

# Between two writes, and during an outage.
_MOST: Final = 2000
_INTERVAL: Final = 1.0
# At shutdown, the last may still be written for this long. They are there to be looked at, and nothing depends on them.
_LAST_WRITE: Final = 1.0


class ScimRecorder:
    """An actor that implements `ports.federation.scim.exchanges.ScimRecorder`. When too many wait, the newest are dropped."""

    name = "scim_recorder"

    def __init__(self, store: ScimExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        self._store = store
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._most = most
        self._waiting: list[ScimExchange] = []
        self._dropped = 0
        self._came = trio.Event()

    def record(self, exchange: ScimExchange) -> None:
        if len(self._waiting) >= self._most:
            self._dropped += 1
            return
        self._waiting.append(exchange)
        self._came.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                await self._came.wait()
                await trio.sleep(_INTERVAL)
                await self._write()
        except trio.Cancelled:
            with trio.move_on_after(_LAST_WRITE, shield=True):
                await self._write()
            raise

    async def _write(self) -> None:
        """Forgets them only once they are written. Writing one twice changes nothing."""
        if self._dropped:
            log.warning("scim_exchanges_dropped", exchanges=self._dropped)
            self._dropped = 0
        writing = list(self._waiting)
        if not writing:
            return
        try:
            await self._write_all(writing)
        except (Unavailable, Overloaded) as error:
            # Those that wait are written with the next that come, or a second later.
            self._outage.began(error)
        else:
            self._outage.over()
            del self._waiting[: len(writing)]
            if not self._waiting:
                self._came = trio.Event()

    async def _write_all(self, writing: Sequence[ScimExchange]) -> None:
        """Where one cannot be written, those of its organization are lost with it, and no others."""
        try:
            await self._store.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception:  # noqa: BLE001 - told below, by the organization that it is about
            for organization in dict.fromkeys(one.organization for one in writing):
                await self._write_those_of(organization, [one for one in writing if one.organization == organization])

    async def _write_those_of(self, organization: OrganizationId, writing: Sequence[ScimExchange]) -> None:
        try:
            await self._store.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - this organization's mishap is nobody else's problem
            self._mishaps.tell(error, organization=str(organization))
