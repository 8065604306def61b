"""The last refused requests of an application, for the members who look after it."""

from collections.abc import Sequence

from core.domain.errors import NotFound
from core.domain.federation.authorization_refusals import DocumentRefusal, ListedRefusal
from core.domain.identifiers import ResourceServerId
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

    async def list_of_api(self, member: Member, api: ResourceServerId) -> Sequence[DocumentRefusal]:
        """The last requests of metadata clients for the API that were refused before there was a service, newest first. Raises
        `NotFound`.
        """
        found = await self.store.list_of_api(member.organization, api)
        if found is None:
            raise NotFound("The organization has no such API")
        return found
