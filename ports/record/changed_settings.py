"""Changes of settings that can be taken back. `ports.unit_of_work.UnitOfWork.record` writes them, for an actor that names the change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.record.changed_settings import ChangedSetting


class ChangedSettings(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None, since: datetime) -> Sequence[ChangedSetting]:
        """The changes of the settings on the page at this address, the newest first, and no more than `MOST_LISTED`. With an organization,
        only those of the organization; None for pages of the platform. With the id of the thing that is there now, none of a thing that was
        there before under the same name.
        """
