"""The store of organizations' end users: the people who use their services."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed, Page
from core.domain.services.end_users import EndUser, EndUserDetail


class EndUserStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. `end_sessions` needs a unit of work. People who
    use none of the organization's services do not exist here.
    """

    async def list(self, organization: OrganizationId, page: Page, *, search: str, service: ServiceId | None) -> Listed[EndUser] | None:
        """People whose address contains `search` literally, the newest account first, in all services or in one. None when the organization
        has no such service.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> EndUserDetail | None: ...

    async def end_sessions(self, organization: OrganizationId, user: UserId, *, of_member: bool = False) -> int | None:
        """Ends the person's sessions in the organization's services, and approved codes that have no session yet, and no other sessions.
        The account is held. Returns how many sessions ended; None when the person uses none of the organization's services. `of_member`:
        also the sessions in the organization itself; None when the person is no member.
        """
