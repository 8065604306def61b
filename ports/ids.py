"""New ids. They are UUIDv7, so that rows which are made one after the other lie side by side."""

from typing import Protocol
from uuid import UUID


class Ids(Protocol):
    """The system implements it."""

    def new(self) -> UUID: ...
