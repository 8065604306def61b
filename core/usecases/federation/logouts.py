"""Signing out at an application's request (OpenID Connect RP-Initiated Logout 1.0)."""

from core.domain.federation.logout.logouts import OidcLogoutRequest, client_of_logout, way_back
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.identity.callers import Caller
from core.frozen import Frozen
from core.usecases.federation.id_token_hints import read_hint
from ports.federation.authorizations import Encounters
from ports.tokens import TokenVerifier


class Farewell(Frozen):
    """How a request to sign out goes on."""

    application: RequestingApplication | None
    """That asks. None: it is not known which."""
    way_back: str | None
    """Where the person goes once they are signed out. None: they stay here."""
    must_ask: bool
    """Whether the person has to say first that they want this: anybody can make their browser come here."""


class Logouts(Frozen):
    encounters: Encounters
    verifier: TokenVerifier

    async def look(self, request: OidcLogoutRequest, caller: Caller | None) -> Farewell:
        """Changes nothing. Raises `WayBackUnknown`. A hint counts when it is an ID token of ours, expired or not, for this application and
        this person. A wrong one is no hint at all, and then nothing that came with it counts, either.
        """
        hint = None
        if request.id_token_hint is not None:
            hint = await read_hint(self.verifier, request.id_token_hint)
            if hint is None or request.client not in {None, hint.client}:
                return Farewell(None, None, caller is not None)
        client = client_of_logout(request, hint)
        met = None if client is None else await self.encounters.find(client, None)
        application = None if met is None else met.application
        is_theirs = caller is not None and hint is not None and application is not None and hint.user == caller.user
        return Farewell(application, way_back(request, application), caller is not None and not is_theirs)
