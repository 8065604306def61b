"""Pushed authorization requests (RFC 9126): an application stores its request here, and sends the person with the request's URI."""

from datetime import timedelta
from typing import Final

from core.domain.federation.oauth.authorization_parameters import PUSHED, Parameters, recipient
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, stored, unknown_application
from core.domain.identifiers import ClientId, PushedRequestId
from core.frozen import Frozen
from core.usecases.federation.authorizations import Authorizations
from ports.federation.authorizations import Encounters, PushedRequestStore
from ports.system import System

LIFETIME: Final = timedelta(seconds=60)


class PushedRequest(Frozen):
    """`uri` is good for one browser, once."""

    uri: str
    lifetime: timedelta


class PushedRequests(Frozen):
    authorizations: Authorizations
    encounters: Encounters
    store: PushedRequestStore
    system: System

    async def push(self, parameters: Parameters, client: ClientId) -> PushedRequest:
        """`client` has authenticated, unless it is a public client. Raises `AuthorizationRefused` and `UnknownRecipient`."""
        if "request_uri" in parameters:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "request_uri: a pushed request cannot name another one")
        met = await self.encounters.find(client, None)
        if met is None:
            raise unknown_application()
        application = met.application
        request = await self.authorizations.checked(parameters, application, recipient(parameters, application.registered))
        await self.authorizations.named_resources(request, application, None)
        secret = self.system.secrets.token()
        expires_at = self.system.clock.now() + LIFETIME
        await self.store.add(PushedRequestId(self.system.ids.new()), secret.digest(), application.service, stored(request), expires_at)
        return PushedRequest(f"{PUSHED}{secret.reveal()}", LIFETIME)
