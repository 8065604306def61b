"""The installation as its operators see it on the pages of platform owners."""

from core.domain.platform.installation import FirstStepsDone, InstallationState
from core.frozen import Frozen
from ports.platform.installation import InstallationLookup


class Installation(Frozen):
    """The caller has checked that the request comes from a platform owner."""

    lookup: InstallationLookup

    async def state(self) -> InstallationState:
        return await self.lookup.state()

    async def first_steps(self) -> FirstStepsDone:
        return await self.lookup.first_steps()
