"""The look-up of things by their names."""

from collections.abc import Collection, Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.platform.searches import FoundThing, FoundThings, ThingKind


class ThingLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def of(self, organization: OrganizationId, text: str, kinds: Collection[ThingKind]) -> Sequence[FoundThing]:
        """The organization's things of these kinds whose name, short name or id has the text, some of each kind, by kind and name."""

    async def everywhere(self, text: str, most_read: int) -> FoundThings:
        """Organizations and applications, `most_read` of each at most, and the installation's own tiers, fields and keys."""
