"""Recent changes of settings: what a page may offer to take back."""

from collections.abc import Sequence

from core.domain.identifiers import OrganizationId
from core.domain.record.changed_settings import KEPT_FOR, ChangedSetting
from core.frozen import Frozen
from ports.clock import Clock
from ports.record.changed_settings import ChangedSettings


class RecentChanges(Frozen):
    changed_settings: ChangedSettings
    clock: Clock

    async def list(self, organization: OrganizationId | None, place: str, thing: str | None) -> Sequence[ChangedSetting]:
        """The changes of the last ten minutes on the page at this address, the newest first, of the thing that is there now. The caller may
        change the settings.
        """
        return await self.changed_settings.list(organization, place, thing, self.clock.now() - KEPT_FOR)
