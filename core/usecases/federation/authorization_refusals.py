"""The last refused requests of an application, for the members who look after it."""

from collections.abc import Sequence

from core.domain.errors import NotFound
from core.domain.federation.authorization_refusals import ListedRefusal
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from ports.federation.authorization_refusals import AuthorizationRefusalStore


class AuthorizationRefusals(Frozen):
    store: AuthorizationRefusalStore

    async def list(self, member: Member, service_slug: str) -> Sequence[ListedRefusal]:
        """Newest first. Raises `NotFound`."""
        found = await self.store.list(member.organization, service_slug)
        if found is None:
            raise NotFound("The organization has no such service")
        return found
