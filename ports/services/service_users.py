"""The store of services' users."""

from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.identity.makers.made_accounts import Elsewhere
from core.domain.pages import Listed
from core.domain.services.service_users import HeldServiceUser, ServiceUser, ServiceUserDetail
from core.domain.tenancy.metadata import Metadata


class ServiceUserStore(Protocol):
    """Outside a unit of work, `list` and `detail` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, service: ServiceId, limit: int, offset: int) -> Listed[ServiceUser]:
        """The users in the order in which they became users, with their exact number."""

    async def detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None: ...

    async def hold_detail(self, service: ServiceId, user: UserId) -> ServiceUserDetail | None:
        """The person stays a user of the service, and nobody else changes what the service keeps, until the unit of work ends."""

    async def save_metadata(self, service: ServiceId, user: UserId, metadata: Metadata) -> None:
        """After `hold_detail`."""

    async def join(self, service: ServiceId, email: Email, at: datetime) -> tuple[ServiceUser, bool] | None:
        """Makes the account with this address a user of the service. The bool says whether the account was a user before. None when there
        is no such account, or the service is gone. Called near the end of the unit of work, because a new user is counted in the row of the
        service.
        """

    async def hold(self, service: ServiceId, user: UserId) -> HeldServiceUser | None:
        """Nobody else changes the account, and nothing new refers to it, until the unit of work ends. Comes first in its unit of work."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> None:
        """The new address is unverified. Raises `BadRequest` when somebody has the address; the caller must then leave the unit of work.
        After `hold`.
        """

    async def hold_organizations(self, user: UserId, maker: OrganizationId, *, also: OrganizationId | None) -> frozenset[OrganizationId]:
        """If this organization has made the account, locks the organizations in which the person is a member. `also` is one that the caller
        locks in any case. Comes before `hold`.
        """

    async def elsewhere(self, user: UserId, maker: OrganizationId) -> Elsewhere:
        """What other organizations than the maker have of the person. After `hold`."""

    async def delete_account(self, user: UserId, request: PrivacyRequestId, at: datetime) -> None:
        """Deletes the account with everything that belongs to it, its sign-ins, and what the audit log knows of the person. The job of this
        request removes the rest. After `hold`.
        """

    async def leave(self, service: ServiceId, organization: OrganizationId, user: UserId) -> None:
        """Removes everything that the service has about its user. The account stays, and the service can no longer change the account.
        After `hold`.
        """
