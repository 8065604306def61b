"""Pushed authorization requests (RFC 9126): an application leaves its request here, and sends the person along with the request's name."""

from datetime import timedelta
from typing import Final

from core.domain.federation.authorization_parameters import PUSHED, Parameters, recipient
from core.domain.federation.authorizations import AuthorizationErrorCode, AuthorizationRefused, stored, unknown_application
from core.domain.identifiers import ClientId, PushedRequestId
from core.frozen import Frozen
from core.usecases.federation.authorizations import Authorizations
from ports.clock import Clock
from ports.federation.authorizations import Encounters, PushedRequestStore
from ports.ids import Ids
from ports.secrets import Secrets

LIFETIME: Final = timedelta(seconds=60)


class PushedRequest(Frozen):
    """`uri` is good for one browser, once."""

    uri: str
    lifetime: timedelta


class PushedRequests:
    def __init__(
        self,
        authorizations: Authorizations,
        encounters: Encounters,
        store: PushedRequestStore,
        *,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        self._authorizations = authorizations
        self._encounters = encounters
        self._store = store
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def push(self, parameters: Parameters, client: ClientId) -> PushedRequest:
        """`client` has authenticated, if it has anything to authenticate with. Raises `AuthorizationRefused` and `UnknownRecipient`."""
        if "request_uri" in parameters:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "request_uri: a pushed request cannot name another one")
        met = await self._encounters.find(client, None)
        if met is None:
            raise unknown_application()
        application = met.application
        request = await self._authorizations.checked(parameters, application, recipient(parameters, application.registered))
        secret = self._secrets.token()
        expires_at = self._clock.now() + LIFETIME
        await self._store.add(PushedRequestId(self._ids.new()), secret.digest(), application.service, stored(request), expires_at)
        return PushedRequest(f"{PUSHED}{secret.reveal()}", LIFETIME)
