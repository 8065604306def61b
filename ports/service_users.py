"""Where the users of a service are kept. Whoever is none of this service does not exist here."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed
from core.domain.service_users import HeldServiceUser, ServiceUser


class ServiceUserStore(Protocol):
    """Part of the unit of work."""

    async def join(self, service: ServiceId, email: Email, at: datetime) -> tuple[ServiceUser, bool] | None:
        """The account of this address, which is a user of the service from now on, and whether it was none before. None when there is no
        such account, or no such service any more. Near the end of the unit of work: a newcomer is counted in the service's row.
        """

    async def hold(self, service: ServiceId, user: UserId) -> HeldServiceUser | None:
        """Nothing else happens to the account, and nothing comes to refer to it, until the unit of work ends. First in its unit of work."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> None:
        """Nobody has proved the new address, so it is not verified. Raises `BadRequest` when it is taken; the unit of work can then only be
        left. After `hold`.
        """

    async def delete_account(self, user: UserId) -> None:
        """With all that hangs on it, its sign-ins, and what the audit log knows of the person. After `hold`."""

    async def leave(self, service: ServiceId, organization: OrganizationId, user: UserId) -> None:
        """All goes that the service has of its user; the account stays, and is not this service's to change any more. After `hold`."""


class ServiceUserLookup(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def list(self, service: ServiceId, limit: int, offset: int) -> Listed[ServiceUser]:
        """In the order in which they became its users, with their exact number."""

    async def get(self, service: ServiceId, user: UserId) -> ServiceUser | None: ...
