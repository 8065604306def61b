"""New ids. They are UUIDv7, so that rows made one after the other lie side by side."""

from typing import Protocol
from uuid import UUID


class Ids(Protocol):
    def new(self) -> UUID: ...
