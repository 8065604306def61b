"""The store of impersonations."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.impersonation import Impersonation
from core.domain.identity.sessions import NO_SUBSCRIPTION, Parent, SubscriptionState
from core.domain.identity.sign_in import Destination
from core.frozen import Frozen


class MembershipHeld(Frozen):
    """The user's membership of the requested organization."""

    organization: OrganizationId
    organization_slug: str
    is_active: bool
    """The status of the organization, not of the membership."""


class Impersonable(Frozen):
    account: Account
    membership: MembershipHeld | None
    opener: Parent | None
    """The session from which the platform owner asks. None when it has ended."""
    service: Destination | None = None
    """The requested service, if the user is a user of it."""
    subscription: SubscriptionState = NO_SUBSCRIPTION
    tells_more: bool = False
    """See `OpenedSession.tells_more`."""


class ImpersonationStore(Protocol):
    """All methods need a unit of work."""

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        """None when there is no such user. `membership` is None when the user is in no organization with this slug, `service` when the user
        uses no service with these slugs. Both accounts and the rows of the service stay as they are until the unit of work ends. A request
        that is about to end the sessions of either account waits for it.
        """

    async def add(self, impersonation: Impersonation) -> None:
        """Called after its session is added."""

    async def end_all(self, user: UserId) -> None:
        """Ends every impersonation of this user for good, without a round trip of its own. Called after the statement that holds the
        account: an impersonation that was about to begin has begun by then, and ends too.
        """
