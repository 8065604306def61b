"""Marks of when a session or an API key was last used. Requests leave them without waiting; an actor writes them down."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeVar

Seen = TypeVar("Seen")
Seen_contra = TypeVar("Seen_contra", contravariant=True)


class Presence(Protocol[Seen_contra]):
    """Requests call it: it never waits and never fails. A full buffer drops the mark and counts the drop. An actor implements it."""

    def seen(self, one: Seen_contra, at: datetime) -> None: ...


class PresenceStore(Protocol[Seen]):
    """PostgreSQL implements it, once for sessions and once for each kind of keys."""

    async def mark_seen(self, times: Mapping[Seen, datetime]) -> None:
        """Move the time of last use forward for many at once, in parts. The time never moves back. Unknown ids are ignored."""
