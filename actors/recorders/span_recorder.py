"""The span recorder: sends the spans of requests and jobs to the operator's collector. No request waits for it, and while the collector is
away, spans are dropped and counted.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import structlog
import trio

from actors.failures import Mishaps
from actors.mailbox import Mailbox
from core.domain.jobs import Retry
from core.domain.record.deliveries import rest_asked
from ports.clock import Clock
from ports.metrics import Metrics
from ports.record.span_collectors import NotCollected, SpanCollector
from ports.record.spans import Trace, TraceSpan

log = structlog.get_logger()

MOST: Final = 16_384
"""The most spans that wait: about 10 MB."""
BATCH: Final = 2048
"""The most spans of one call: about 700 kB. Collectors take 20 MB and more."""
_INTERVAL: Final = 1.0
_PAUSES: Final = Retry(first=timedelta(seconds=1), longest=timedelta(seconds=15), most_attempts=5)
# A collector that asks for more would have every span dropped meanwhile.
_LONGEST_REST: Final = timedelta(minutes=1)
# The seconds at shutdown in which the last spans are sent.
_LAST_WORDS: Final = 2.0


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
        self._waiting: deque[list[TraceSpan]] = deque()
        self._count = 0
        self._failing = False

    def take(self, trace: Trace) -> None:
        """Never waits and never fails. When too many spans wait, the newest are dropped, a request's all together."""
        # A task that outlives its request may still add spans; nobody reads those.
        spans, trace.spans = trace.spans, []
        dropped = trace.left_out
        if self._count + len(spans) > self._most:
            dropped += len(spans)
        else:
            self._waiting.append(spans)
            self._count += len(spans)
            if self._count >= BATCH:
                self._mailbox.post()
        if dropped:
            self._metrics.spans("dropped", dropped)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
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

    async def _with_batch(self, send: Callable[[list[TraceSpan]], Awaitable[None]]) -> None:
        batch = self._waiting.popleft()
        while self._waiting and len(batch) + len(self._waiting[0]) <= BATCH:
            batch += self._waiting.popleft()
        self._count -= len(batch)
        try:
            await send(batch)
        except trio.Cancelled:
            self._waiting.appendleft(batch)
            self._count += len(batch)
            raise

    async def _send(self, batch: list[TraceSpan]) -> None:
        attempts = 0
        while True:
            attempts += 1
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

    async def _send_once(self, batch: list[TraceSpan]) -> None:
        try:
            await self._try(batch)
        except NotCollected as error:
            self._lose(batch, error)

    async def _try(self, batch: list[TraceSpan]) -> None:
        try:
            collected = await self._collector.collect(batch)
        except NotCollected:
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of one batch must not stop the others
            self._mishaps.tell(error)
            raise NotCollected("mishap", passes=False) from None
        if collected.rejected:
            self._metrics.spans("failed", collected.rejected)
        self._metrics.spans("sent", len(batch) - collected.rejected)
        if self._failing:
            self._failing = False
            log.info("spans_are_collected_again")

    def _lose(self, batch: list[TraceSpan], error: NotCollected) -> None:
        self._begin_to_fail(error)
        self._metrics.spans("failed", len(batch))

    def _begin_to_fail(self, error: NotCollected) -> None:
        """Logs the first failure of a row of failures."""
        if not self._failing:
            self._failing = True
            log.warning("spans_not_collected", reason=error.reason)
