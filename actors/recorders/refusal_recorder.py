"""The recorder of refusals: stores refused requests of applications, so that those who look after the applications can find out why. No
request waits for the recorder.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from actors.batch_writer import BatchWriter
from actors.failures import Mishaps
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.authorization_refusals import AuthorizationRefusal
from core.domain.identifiers import AuthorizationRefusalId, ClientId
from ports.federation.authorization_refusals import AuthorizationRefusalStore
from ports.metrics import Metrics

log = structlog.get_logger()

# The most refusals kept between two writes, and during an outage. Anybody can send requests that are refused.
_MOST: Final = 1000


class RefusalRecorder(BatchWriter[AuthorizationRefusalId, AuthorizationRefusal]):
    """When too many refusals wait, the newest are dropped. Nothing depends on them."""

    def __init__(self, store: AuthorizationRefusalStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        super().__init__("refusal_recorder", spread=spread, most=most)
        self._refusals = store
        self._mishaps = Mishaps(self.name, metrics)
        self._dropped = 0

    def record(self, refusal: AuthorizationRefusal) -> None:
        """Never waits and never fails."""
        self.post(refusal.id, refusal)

    def _replaces(self, value: AuthorizationRefusal, known: AuthorizationRefusal) -> bool:
        return value != known

    def _drop(self) -> None:
        self._dropped += 1

    async def _write(self) -> None:
        if self._dropped:
            self._tell_lost(self._dropped)
            self._dropped = 0
        await super()._write()

    def _tell_lost(self, number: int) -> None:
        log.warning("authorization_refusals_dropped", refusals=number)

    async def _store(self, values: Mapping[AuthorizationRefusalId, AuthorizationRefusal]) -> None:
        """If the database refuses a refusal, the waiting ones of the same client are lost with it, and no others."""
        writing = list(values.values())
        try:
            await self._refusals.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception:  # noqa: BLE001 - logged below, with the client
            for client in dict.fromkeys(one.client for one in writing):
                await self._store_those_of(client, [one for one in writing if one.client == client])

    async def _store_those_of(self, client: ClientId, writing: Sequence[AuthorizationRefusal]) -> None:
        try:
            await self._refusals.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of this client must not stop the others
            self._mishaps.tell(error, client=str(client))
