"""What a sign-in through an upstream provider looks up and keeps."""

from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter
from core.domain.identity.upstream.link_requests import Asker
from core.domain.identity.upstream.providers import OwnProviders
from core.domain.identity.upstream.sign_in import NewState, ServicePlace, TakenState, UsedState, WayThrough


class UpstreamLookup(Protocol):
    """Outside any unit of work: each is one statement, one round trip; two for whoever connects an identity and comes back."""

    async def way(self, provider: str, place: ServicePlace) -> WayThrough: ...

    async def own(self, organization: str) -> OwnProviders:
        """What the organization with this slug has, while it is active."""

    async def leave(self, state: NewState, place: ServicePlace, begun: Flow | None = None) -> WayThrough:
        """Keeps the state if there is a client to leave with, and for a flow the organization that the place names: what is found says so.
        `begun` is the flow, if that begins with this; it is kept in any case.
        """

    async def asker(self, session: SessionId) -> Asker | None:
        """None when it has ended, or its organization is not active."""

    async def take(self, digest: bytes, provider: str, browser: bytes) -> TakenState | None:
        """Once: whoever gets it has used it up. It must be this browser's, and must not have expired. Where somebody connects an identity,
        the sessions in which they asked for it and went to the provider must still live.
        """

    async def used(self, digest: bytes, provider: str, browser: bytes) -> UsedState | None:
        """What somebody has taken in this browser a moment ago. None: nobody has, or it was settled that it leads nowhere."""

    async def settle(self, digest: bytes, led_to: str) -> None:
        """Where it has led to, who took it; nowhere, without an address."""

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
