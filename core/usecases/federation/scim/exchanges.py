"""The last exchanges with an organization's directories, for the members who manage integrations."""

from collections.abc import Sequence

from core.domain.federation.scim.exchanges import ScimExchange
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.federation.scim.exchanges import ScimExchangeStore


class ScimExchanges(Frozen):
    store: ScimExchangeStore

    async def list(self, member: Member, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        """Newest first. With `refused`, only the refused exchanges."""
        return await self.store.list(member.organization, limit, refused=refused)
