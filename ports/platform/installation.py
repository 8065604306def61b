"""The installation as its operators see it."""

from typing import Protocol

from core.domain.platform.installation import FirstStepsDone, InstallationState


class InstallationLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def state(self) -> InstallationState: ...

    async def first_steps(self) -> FirstStepsDone: ...
