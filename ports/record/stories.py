"""Where stories of requests are read."""

from typing import Protocol

from core.domain.record.stories import SoughtStory, Story


class Stories(Protocol):
    """Outside any unit of work, and across all organizations: only an operator may ask."""

    async def find(self, sought: SoughtStory) -> Story:
        """At most `MOST_ROWS` rows, the earliest."""
