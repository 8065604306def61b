"""Signing out at an application's request (OpenID Connect RP-Initiated Logout 1.0)."""

from core.domain.federation.logout.logouts import OidcLogoutRequest, client_of_logout, way_back
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.identifiers import UserId
from core.domain.identity.callers import Caller
from core.frozen import Frozen
from core.usecases.federation.id_token_hints import read_hint
from ports.federation.authorizations import Encounters
from ports.tokens import TokenVerifier


class Farewell(Frozen):
    """The result of a look at a request to sign out."""

    application: RequestingApplication | None
    """The application that asks. None when the application is unknown."""
    way_back: str | None
    """The address to which the person goes after the sign-out. None when the person stays here."""
    must_ask: bool
    """Whether the person has to confirm the sign-out first, because any site can send a browser here."""
    person: UserId | None = None
    """The person of the application's ID token: the account that the sign-out is for. None without one."""


class Logouts(Frozen):
    encounters: Encounters
    verifier: TokenVerifier

    async def look(self, request: OidcLogoutRequest, caller: Caller | None) -> Farewell:
        """Changes nothing. Raises `WayBackUnknown`. A hint counts when the hint is an ID token of ours, expired or not, for this
        application and this person. A wrong hint is ignored together with the other parameters of the request.
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
        person = None if hint is None or application is None else hint.user
        return Farewell(application, way_back(request, application), caller is not None and not is_theirs, person)
