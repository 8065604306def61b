"""The recorder of refusals: stores refused requests of applications, so that those who look after the applications can find out why. No
request waits for the recorder.
"""

from collections.abc import Callable
from typing import Final

import structlog

from actors.recorders.recorder import Recorder
from core.domain.federation.authorization_refusals import AuthorizationRefusal, DocumentRefusal
from core.domain.identifiers import AuthorizationRefusalId
from ports.federation.oauth import AuthorizationRefusalStore
from ports.metrics import Metrics

log = structlog.get_logger()

# The most refusals kept between two writes, and during an outage. Anybody can send requests that are refused.
_MOST: Final = 1000


class RefusalRecorder(Recorder[AuthorizationRefusalId, AuthorizationRefusal | DocumentRefusal]):
    def __init__(self, store: AuthorizationRefusalStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        super().__init__("refusal_recorder", store.add, metrics, spread=spread, most=most)

    def record(self, refusal: AuthorizationRefusal | DocumentRefusal) -> None:
        self.post(refusal.id, refusal)

    def _owner(self, value: AuthorizationRefusal | DocumentRefusal) -> tuple[str, str]:
        return ("api", str(value.api)) if isinstance(value, DocumentRefusal) else ("client", str(value.client))

    def _tell_lost(self, number: int) -> None:
        log.warning("authorization_refusals_dropped", refusals=number)
