"""The recorder of connections: stores the exchanges with organizations' own providers, so that administrators can find out why a sign-in
failed. No request waits for the recorder.
"""

from collections.abc import Callable
from typing import Final

import structlog

from actors.recorders.recorder import Recorder
from core.domain.identifiers import ConnectionExchangeId
from core.domain.identity.upstream.connection_tests import ConnectionExchange, joined
from ports.identity.upstream import ConnectionExchangeStore
from ports.metrics import Metrics

log = structlog.get_logger()

# The most exchanges kept between two writes, and during an outage.
_MOST: Final = 2000


class ConnectionExchangeWriter(Recorder[ConnectionExchangeId, ConnectionExchange]):
    """Implements `ports.identity.upstream.ConnectionRecorder`."""

    def __init__(self, store: ConnectionExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        super().__init__("connection_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, exchange: ConnectionExchange) -> None:
        self.post(exchange.id, exchange)

    def _gather(self, key: ConnectionExchangeId, value: ConnectionExchange) -> None:
        known = self._gathered.get(key)
        super()._gather(key, value if known is None else joined(known, value))

    def _owner(self, value: ConnectionExchange) -> tuple[str, str]:
        return "provider", str(value.provider)

    def _tell_lost(self, number: int) -> None:
        log.warning("connection_exchanges_dropped", exchanges=number)
