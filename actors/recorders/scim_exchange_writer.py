"""The SCIM recorder: stores the exchanges with directories, so that owners can look at them. No request waits for the recorder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from actors.batch_writer import BatchWriter
from actors.failures import Mishaps
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.scim.exchanges import ScimExchange
from core.domain.identifiers import OrganizationId, ScimExchangeId
from ports.federation.scim.exchanges import ScimExchangeStore
from ports.metrics import Metrics

log = structlog.get_logger()

# The most exchanges kept between two writes, and during an outage.
_MOST: Final = 2000


class ScimExchangeWriter(BatchWriter[ScimExchangeId, ScimExchange]):
    """Implements `ports.federation.scim.exchanges.ScimRecorder`. When too many exchanges wait, the newest are dropped. Nothing depends on
    the exchanges.
    """

    def __init__(self, store: ScimExchangeStore, metrics: Metrics, *, spread: Callable[[], float], most: int = _MOST) -> None:
        super().__init__("scim_recorder", spread=spread, most=most)
        self._exchanges = store
        self._mishaps = Mishaps(self.name, metrics)
        self._dropped = 0

    def record(self, exchange: ScimExchange) -> None:
        self.post(exchange.id, exchange)

    def _replaces(self, value: ScimExchange, known: ScimExchange) -> bool:
        return value != known

    def _drop(self) -> None:
        self._dropped += 1

    async def _write(self) -> None:
        if self._dropped:
            self._tell_lost(self._dropped)
            self._dropped = 0
        await super()._write()

    def _tell_lost(self, number: int) -> None:
        log.warning("scim_exchanges_dropped", exchanges=number)

    async def _store(self, values: Mapping[ScimExchangeId, ScimExchange]) -> None:
        """If the database refuses an exchange, the waiting exchanges of the same organization are lost with it, and no others."""
        writing = list(values.values())
        try:
            await self._exchanges.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception:  # noqa: BLE001 - logged below, with the organization
            for organization in dict.fromkeys(one.organization for one in writing):
                await self._store_those_of(organization, [one for one in writing if one.organization == organization])

    async def _store_those_of(self, organization: OrganizationId, writing: Sequence[ScimExchange]) -> None:
        try:
            await self._exchanges.add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of this organization must not stop the others
            self._mishaps.tell(error, organization=str(organization))
