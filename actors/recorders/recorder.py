"""Recorders: batch writers of records that somebody looks at later, and that nothing depends on."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from actors.batch_writer import BatchWriter
from actors.failures import Mishaps
from core.domain.errors import Overloaded, Unavailable
from ports.metrics import Metrics

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recorder(BatchWriter[Key, Value]):
    """When too many records wait, the newest are dropped."""

    def __init__(
        self, name: str, add: Callable[[Sequence[Value]], Awaitable[None]], metrics: Metrics, *, spread: Callable[[], float], most: int
    ) -> None:
        super().__init__(name, spread=spread, most=most)
        self._add = add
        self._mishaps = Mishaps(self.name, metrics)
        self._dropped = 0

    @abstractmethod
    def _owner(self, value: Value) -> tuple[str, str]:
        """The one whose record it is: a word for the log, and an id."""

    def _replaces(self, value: Value, known: Value) -> bool:
        return value != known

    def _drop(self) -> None:
        self._dropped += 1

    async def _write(self) -> None:
        if self._dropped:
            self._tell_lost(self._dropped)
            self._dropped = 0
        await super()._write()

    async def _store(self, values: Mapping[Key, Value]) -> None:
        """If the database refuses a record, the waiting records of the same owner are lost with it, and no others."""
        writing = list(values.values())
        try:
            await self._add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception:  # noqa: BLE001 - logged below, with the owner
            for owner in dict.fromkeys(map(self._owner, writing)):
                await self._store_those_of(owner, [one for one in writing if self._owner(one) == owner])

    async def _store_those_of(self, owner: tuple[str, str], writing: Sequence[Value]) -> None:
        try:
            await self._add(writing)
        except (Unavailable, Overloaded):
            raise
        except Exception as error:  # noqa: BLE001 - a mishap of this owner must not stop the others
            self._mishaps.tell(error, **dict([owner]))
