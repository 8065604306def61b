"""Look-ups and states of a sign-in through an upstream provider."""

from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.flows import Flow
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.identities import Encounter
from core.domain.identity.upstream.link_requests import Asker
from core.domain.identity.upstream.providers import OwnProviders
from core.domain.identity.upstream.sign_in import NewState, ServicePlace, TakenState, UsedState, WayThrough


class UpstreamLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work; `take` needs two for a person who comes back to connect an
    identity.
    """

    async def way(self, provider: str, place: ServicePlace) -> WayThrough: ...

    async def own(self, organization: str) -> OwnProviders:
        """The own providers of the organization with this slug, while it is active."""

    async def leave(self, state: NewState, place: ServicePlace, begun: Flow | None = None) -> WayThrough:
        """Keeps the state if there is a client at the provider. For a flow, it also keeps the organization that the place names. The answer
        tells what was found. `begun` is a flow that begins here; it is kept in any case.
        """

    async def asker(self, session: SessionId) -> Asker | None:
        """None when the session has ended, or its organization is not active."""

    async def take(self, digest: bytes, provider: str, browser: bytes) -> TakenState | None:
        """Uses the state up: of many callers, one gets it. The state must be of this browser and must not have expired. For a person who
        connects an identity, the sessions in which they asked for it and went to the provider must still live.
        """

    async def used(self, digest: bytes, provider: str, browser: bytes) -> UsedState | None:
        """The state that somebody took in this browser a moment ago. None when nobody did, or when it led nowhere."""

    async def settle(self, digest: bytes, led_to: str) -> None:
        """Records the address that the taken state has led to. An empty address means that it led nowhere."""

    async def meet(
        self,
        provider: str,
        asserted: Asserted,
        email: Email | None,
        approach: Approach,
        *,
        organization: OrganizationId | None = None,
        user: UserId | None = None,
        application: Context = PLATFORM,
    ) -> Encounter:
        """The accounts that the provider's assertion may be about. `organization` is the one whose own provider it is. `user` is a person
        who wants to connect the identity; then no account is looked for by an address. `application` is the one that the browser's flow
        leads to.
        """
