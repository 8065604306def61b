"""Where impersonations are kept."""

from dataclasses import dataclass
from typing import Protocol

from core.domain.accounts import Account
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.impersonation import Impersonation
from core.domain.sessions import NO_SUBSCRIPTION, SubscriptionState
from core.domain.sign_in import Destination


@dataclass(frozen=True, slots=True)
class Membership:
    """Of the user in the organization that was asked for."""

    organization: OrganizationId
    organization_slug: str
    is_active: bool
    """The organization, not the membership."""


@dataclass(frozen=True, slots=True)
class Impersonable:
    account: Account
    membership: Membership | None
    by_live_session: bool
    """Whether the session still lives from which the platform owner asks."""
    service: Destination | None = None
    """The one that was asked for, if the user is a user of it."""
    subscription: SubscriptionState = NO_SUBSCRIPTION


class ImpersonationStore(Protocol):
    """Part of the unit of work."""

    async def find_user(
        self, user: UserId, organization_slug: str, service_slug: str, *, by: UserId, session: SessionId
    ) -> Impersonable | None:
        """None when there is no such user. Without a membership when the user is in no organization of this slug, without a service when
        they use none of these slugs. Both accounts stay as they are until the unit of work ends, and whoever is about to end the sessions
        of either waits for it; the rows of the service stay as long.
        """

    async def add(self, impersonation: Impersonation) -> None:
        """After its session."""

    async def end_all(self, user: UserId) -> None:
        """Whoever acts in this user's name does so no more, whatever becomes of the user later. Nobody waits for it. After the statement
        that holds the account: an impersonation that was about to begin has begun by then, and ends too.
        """
