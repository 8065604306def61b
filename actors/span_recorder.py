"""The span recorder: sends the spans of requests and jobs to the operator's collector. No request waits for it, and while the collector is
away, spans are dropped and counted.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import structlog
import trio

from actors.foundation import Mailbox, Mishaps, turned
from core.domain.jobs import Retry
from core.domain.record.deliveries import rest_asked
from core.frozen import Frozen
from ports.metrics import Metrics
from ports.record import NotCollected, SpanCollector
from ports.system import Clock

log = structlog.get_logger()


MOST: Final = 16_384
"""The most spans that wait: about 6 MB."""
BATCH: Final = 2048
"""The most spans of one call: about 700 kB. Collectors take 20 MB and more."""
_INTERVAL: Final = 1.0
_PAUSES: Final = Retry(first=timedelta(seconds=1), longest=timedelta(seconds=15), most_attempts=5)
# A collector that asks for more would have every span dropped meanwhile.
_LONGEST_REST: Final = timedelta(minutes=1)
# The seconds at shutdown in which the last spans are sent.
_LAST_WORDS: Final = 2.0


class _Batch(Frozen):
    """Texts with so many spans."""

    texts: Sequence[str]
    count: int


class SpanRecorder:
    name = "span_recorder"

    def __init__(
        self,
        collector: SpanCollector,
        metrics: Metrics,
        clock: Clock,
        *,
        spread: Callable[[], float],
        most: int = MOST,
        interval: float = _INTERVAL,
        pauses: Retry = _PAUSES,
    ) -> None:
        self._collector = collector
        self._metrics = metrics
        self._clock = clock
        self._spread = spread
        self._most = most
        self._interval = interval
        self._pauses = pauses
        self._mishaps = Mishaps(self.name, metrics)
        self._mailbox = Mailbox()
        self._waiting: deque[tuple[str, int]] = deque()
        self._count = 0
        self._failing = False

    def take(self, text: str, count: int, left_out: int) -> None:
        """`text` has so many spans. Never waits and never fails. When too many spans wait, the newest are dropped, a request's all
        together.
        """
        if self._count + count > self._most:
            left_out += count
        elif count:
            self._waiting.append((text, count))
            self._count += count
            if self._count >= BATCH:
                self._mailbox.post()
        if left_out:
            self._metrics.spans("dropped", left_out)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                turned(pause=self._interval)
                await self._mailbox.wait(self._interval)
                while self._waiting:
                    await self._with_batch(self._send)
        finally:
            with trio.move_on_after(_LAST_WORDS, shield=True):
                while self._waiting:
                    await self._with_batch(self._send_once)
            if self._waiting:
                self._metrics.spans("dropped", self._count)
                log.warning("spans_dropped_at_the_end", spans=self._count)
                self._waiting.clear()
                self._count = 0

    async def _with_batch(self, send: Callable[[_Batch], Awaitable[None]]) -> None:
        batch = [self._waiting.popleft()]
        count = batch[0][1]
        while self._waiting and count + self._waiting[0][1] <= BATCH:
            batch.append(self._waiting.popleft())
            count += batch[-1][1]
        self._count -= count
        try:
            await send(_Batch([text for text, _ in batch], count))
        except trio.Cancelled:
            self._waiting.extendleft(reversed(batch))
            self._count += count
            raise

    async def _send(self, batch: _Batch) -> None:
        attempts = 0
        while True:
            attempts += 1
            # While the collector is away, more spans wait all the time, and this loop and the one around it go on.
            turned(pause=_LONGEST_REST.total_seconds())
            try:
                await self._try(batch)
            except NotCollected as error:
                if not error.passes or attempts == self._pauses.most_attempts:
                    self._lose(batch, error)
                    return
                self._begin_to_fail(error)
                pause = self._pauses.pause(attempts, self._spread())
                asked = rest_asked(error.retry_after, self._clock.now())
                await trio.sleep((pause if asked is None else max(pause, min(asked, _LONGEST_REST))).total_seconds())
            else:
                return

    async def _send_once(self, batch: _Batch) -> None:
        try:
            await self._try(batch)
        except NotCollected as error:
            self._lose(batch, error)

    async def _try(self, batch: _Batch) -> None:
        try:
            collected = await self._collector.collect(batch.texts, batch.count)
        except NotCollected:
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of one batch must not stop the others
            self._mishaps.tell(error)
            raise NotCollected("mishap", passes=False) from None
        if collected.rejected:
            self._metrics.spans("failed", collected.rejected)
        self._metrics.spans("sent", batch.count - collected.rejected)
        if self._failing:
            self._failing = False
            log.info("spans_are_collected_again")

    def _lose(self, batch: _Batch, error: NotCollected) -> None:
        self._begin_to_fail(error)
        self._metrics.spans("failed", batch.count)

    def _begin_to_fail(self, error: NotCollected) -> None:
        """Logs the first failure of a row of failures."""
        if not self._failing:
            self._failing = True
            log.warning("spans_not_collected", reason=error.reason)
