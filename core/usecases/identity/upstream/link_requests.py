"""Link requests: made by an application or an organization's frontend, and answered by the person on a page of ours."""

from typing import Final

from core.domain.identity.callers import Caller
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.link_requests import Asker, LinkRequest, request_of, session_in
from core.domain.identity.upstream.providers import provider_key
from core.domain.identity.upstream.sign_in import ServicePlace
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.identity.upstream.journeys import Journeys
from ports.clock import Clock
from ports.identity.upstream.sign_in import UpstreamLookup
from ports.server_secrets import ServerSecrets

# The name of the key with which requests are signed.
REQUESTS: Final = "link_requests"


class LinkRequests(Frozen):
    lookup: UpstreamLookup
    journeys: Journeys
    server_secrets: ServerSecrets
    clock: Clock

    async def make(self, caller: Caller, provider: str) -> str:
        """Returns a signed request for the page's address. Raises `UnknownProvider` and `ProviderOff`."""
        key = provider_key(provider)
        await self.journeys.name_at(key, ServicePlace(organization=caller.organization, service_slug=caller.service))
        return request_of(key, caller.session, self.clock.now(), await self.server_secrets.get(REQUESTS))

    async def find(self, provider: str, request: str, caller: Caller) -> LinkRequest | None:
        """Returns the request, or None when the request is about another account than the caller's. Raises `FlowOver` when the request is
        too old or its session has ended, `UnknownProvider`, and `ProviderOff`.
        """
        key, asker = await self._asked(provider, request)
        if asker.user != caller.user:
            return None
        return LinkRequest(provider=key, name=await self.journeys.name_at(key, asker.place), asker=asker)

    async def leave(self, provider: str, request: str, caller: Caller, browser: Token) -> str | None:
        """Returns the address at which the person signs in at the provider, or None when the request is about another account. Raises the
        errors of `find`, and `OAuthError`.
        """
        key, asker = await self._asked(provider, request)
        if asker.user != caller.user:
            return None
        return await self.journeys.leave_to_connect(key, browser, caller, asker)

    async def _asked(self, provider: str, request: str) -> tuple[str, Asker]:
        key = provider_key(provider)
        session = session_in(request, key, self.clock.now(), await self.server_secrets.get(REQUESTS))
        asker = await self.lookup.asker(session)
        if asker is None:
            raise FlowOver
        return key, asker
