"""The SCIM recorder: stores the exchanges with directories, so that owners can look at them. No request waits for the recorder."""

from collections.abc import Callable
from typing import Final

import structlog

from actors.recorders.recorder import Recorder
from core.domain.federation.scim.tokens import ScimExchange
from core.domain.identifiers import ScimExchangeId
from ports.federation.scim import ScimExchangeStore
from ports.metrics import Metrics

log = structlog.get_logger()

# The most exchanges kept between two writes, and during an outage.
_MOST: Final = 2000


class ScimExchangeWriter(Recorder[ScimExchangeId, ScimExchange]):
    """Implements `ports.federation.scim.ScimRecorder`."""

    def __init__(self, store: ScimExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        super().__init__("scim_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, exchange: ScimExchange) -> None:
        self.post(exchange.id, exchange)

    def _owner(self, value: ScimExchange) -> tuple[str, str]:
        return "organization", str(value.organization)

    def _tell_lost(self, number: int) -> None:
        log.warning("scim_exchanges_dropped", exchanges=number)
