"""Marks of when a session or an API key was last used. Requests leave them without waiting; an actor writes them down."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeVar

Seen = TypeVar("Seen")
Seen_contra = TypeVar("Seen_contra", contravariant=True)


class Presence(Protocol[Seen_contra]):
    """Called by requests: never waits, never fails. When the buffer is full, the mark is dropped and counted."""

    def seen(self, one: Seen_contra, at: datetime) -> None: ...


class PresenceStore(Protocol[Seen]):
    async def mark_seen(self, times: Mapping[Seen, datetime]) -> None:
        """Move last-seen forward for many, in parts. Never moves it back. Unknown ones are ignored."""
