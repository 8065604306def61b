"""What people may do in a service, for the service's own servers."""

from core.domain.errors import NotFound
from core.domain.identifiers import UserId
from core.domain.services.api_keys import KeyHolder
from core.domain.services.rights import ExplainedRights, RightsVerdict, verdict
from core.frozen import Frozen
from ports.services.rights import RightsStore


class PeoplesRights(Frozen):
    """Each answer reads the assignments as they are now, so an application that asks sees each change at once."""

    lookup: RightsStore

    async def explain(self, holder: KeyHolder, user: UserId) -> ExplainedRights:
        """Raises `NotFound` for a person who is not a user of the service."""
        explained, _ = await self._ask(holder, user)
        return explained

    async def check(self, holder: KeyHolder, user: UserId, permission: str) -> RightsVerdict:
        """Raises `NotFound` for a person who is not a user of the service."""
        explained, is_known = await self._ask(holder, user, permission)
        return verdict(explained, permission, is_known=is_known)

    async def _ask(self, holder: KeyHolder, user: UserId, permission: str = "") -> tuple[ExplainedRights, bool]:
        asked = await self.lookup.explain(holder.service, user, permission)
        if asked is None:
            raise NotFound("The service has no such user")
        return asked
