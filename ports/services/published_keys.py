"""The keys that services publish under an address of theirs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import ServiceId
from core.domain.json import Json


class KeySets(Protocol):
    async def fetch(self, url: str) -> Mapping[str, Json]:
        """As they are published now. Raises `BadRequest` for what is no such set, and `OutboundFailed`."""

    async def renewed(self, url: str) -> Mapping[str, Json] | None:
        """As they were published some seconds ago at most. Callers who come at once share one look, and so does everybody who comes within
        some seconds of it, whatever it came to. None: they could not be read.
        """


class KeptKeys(Protocol):
    async def keep(self, service: ServiceId, url: str, keys: Mapping[str, Json], at: datetime) -> None:
        """As long as the service still publishes its keys there."""
