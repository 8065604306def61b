"""Marks of when somebody was here last: a session, an API key. Requests leave them without waiting; an actor writes them down."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeVar

Seen = TypeVar("Seen")
Seen_contra = TypeVar("Seen_contra", contravariant=True)


class Presence(Protocol[Seen_contra]):
    """What a request calls: never waits, never fails. When the buffer is full the mark is dropped and counted."""

    def seen(self, one: Seen_contra, at: datetime) -> None: ...


class PresenceStore(Protocol[Seen]):
    async def mark_seen(self, times: Mapping[Seen, datetime]) -> None:
        """Move last-seen forward for many, in parts. Never moves it back; unknown ones are passed over."""
