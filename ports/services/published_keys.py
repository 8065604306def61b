"""The public keys that services publish at their own URLs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ServiceId
from core.domain.json import Json


class KeySets(Protocol):
    """A guarded HTTP client implements it."""

    async def fetch(self, url: str) -> Mapping[str, Json]:
        """The keys as the service publishes them now. Raises `BadRequest` for an answer that is no key set, and `OutboundFailed`."""

    async def renewed(self, url: str) -> Mapping[str, Json] | None:
        """The keys as the service published them some seconds ago at most. Callers at the same time, and in the seconds after, share one
        look and its result. None when the keys could not be read.
        """


class KeptKeys(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def keep(self, service: ServiceId, url: str, keys: Mapping[str, Json], at: datetime) -> None:
        """Stores the keys, if the service still publishes its keys at this address."""
