"""Where the users of a service are kept. Other people do not exist here."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.pages import Listed
from core.domain.services.service_users import HeldServiceUser, ServiceUser


class ServiceUserStore(Protocol):
    """Outside a unit of work, `list` and `get` are one statement and one round trip each. The other methods need a unit of work. Only
    PostgreSQL implements it.
    """

    async def list(self, service: ServiceId, limit: int, offset: int) -> Listed[ServiceUser]:
        """In the order in which they became users, with their exact number."""

    async def get(self, service: ServiceId, user: UserId) -> ServiceUser | None: ...

    async def join(self, service: ServiceId, email: Email, at: datetime) -> tuple[ServiceUser, bool] | None:
        """Make the account with this address a user of the service. Says whether it was one before. None when there is no such account, or
        the service is gone. Called near the end of the unit of work, because a new user is counted in the service's row.
        """

    async def hold(self, service: ServiceId, user: UserId) -> HeldServiceUser | None:
        """Nothing else happens to the account, and nothing new refers to it, until the unit of work ends. First in its unit of work."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> None:
        """The new address is unverified. Raises `BadRequest` when it is taken; the unit of work can then only be left. After `hold`."""

    async def delete_account(self, user: UserId, request: PrivacyRequestId, at: datetime) -> None:
        """With everything that belongs to it, its sign-ins, and what the audit log knows of the person. What else is known is left to the
        job of this request. After `hold`.
        """

    async def leave(self, service: ServiceId, organization: OrganizationId, user: UserId) -> None:
        """Remove everything that the service has about its user. The account stays, and the service can no longer
        change it. After `hold`.
        """
