"""Pushed authorization requests (RFC 9126): an application stores its request here, and sends the person with the request's URI."""

from datetime import timedelta
from typing import Final

from core.domain.federation.oauth.authorization_parameters import PUSHED, Parameters, recipient
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, stored
from core.domain.federation.oauth.unplaced_clients import ArrivedClient
from core.domain.identifiers import ClientId, PushedRequestId
from core.domain.key_proofs.proofs import KeyThumbprint
from core.frozen import Frozen, replace
from core.usecases.federation.authorization.asked import AskedAuthorizations
from ports.federation.authorizations import PushedRequestStore
from ports.system import System

LIFETIME: Final = timedelta(seconds=60)


class PushedRequest(Frozen):
    """`uri` is good for any number of visits, and for one code."""

    uri: str
    lifetime: timedelta


class PushedRequests(Frozen):
    asked: AskedAuthorizations
    store: PushedRequestStore
    system: System

    async def push(
        self, parameters: Parameters, client: ClientId, arrived: ArrivedClient | None = None, key: KeyThumbprint | None = None
    ) -> PushedRequest:
        """`client` has authenticated, unless it is a public client. A metadata client has `arrived`. The code of a request with a proof is
        bound to its `key` (RFC 9449 section 10.1). Raises `AuthorizationRefused` and `UnknownRecipient`.
        """
        if "request_uri" in parameters:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "request_uri: a pushed request cannot name another one")
        application = (await self.asked.met(arrived or ArrivedClient(client), None)).application
        request = await self.asked.checked(parameters, application, recipient(parameters, application.registered))
        if key is not None:
            if request.key not in {None, key}:
                raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "dpop_jkt: is not the key of the proof in DPoP")
            request = replace(request, key=key)
        await self.asked.named_resources(request, application, None)
        secret = self.system.secrets.token()
        expires_at = self.system.clock.now() + LIFETIME
        await self.store.add(PushedRequestId(self.system.ids.new()), secret.digest(), application.kept_service, stored(request), expires_at)
        return PushedRequest(f"{PUSHED}{secret.reveal()}", LIFETIME)
