"""What a sign-in through an upstream provider looks up and keeps."""

from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter
from core.domain.identity.upstream.providers import OwnProviders
from core.domain.identity.upstream.sign_in import NewState, Place, TakenState, WayThrough


class UpstreamLookup(Protocol):
    """Outside any unit of work: each is one statement, one round trip; two for whoever connects an identity and comes back."""

    async def way(self, provider: str, place: Place) -> WayThrough: ...

    async def own(self, organization: str) -> OwnProviders:
        """What the organization with this slug has, while it is active."""

    async def leave(self, state: NewState, place: Place, begun: Flow | None = None) -> WayThrough:
        """Keeps the state if there is a client to leave with, and for a flow the organization that the place names: what is found says so.
        `begun` is the flow, if that begins with this; it is kept in any case.
        """

    async def take(self, digest: bytes, provider: str, browser: bytes | None, user: UserId | None) -> TakenState | None:
        """Once: whoever gets it has removed it. It must be this browser's, or be for connecting an identity to the account of `user`, who
        is signed in in this browser; and it must not have expired, nor the session in which it was asked for have ended.
        """

    async def meet(
        self,
        provider: str,
        asserted: Asserted,
        email: Email | None,
        approach: Approach,
        *,
        organization: OrganizationId | None = None,
        user: UserId | None = None,
    ) -> Encounter:
        """Whom the provider's word may be about. `organization` is the one whose own provider it is. With `user`, who wants to connect the
        identity, nobody is looked for by an address.
        """
