"""Checks requests to applications behind a reverse proxy, and signs their users in and out."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from core.domain.errors import TokenExpired, TokenInvalid
from core.domain.federation.oauth.authorization_codes import code_challenge
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, require_open
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, TokenRequest
from core.domain.federation.oauth.oidc import AUTHORIZATION_ENDPOINT
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.federation.proxy_checks import (
    FoundProxy,
    ProxiedPerson,
    ProxiedRequest,
    ProxyVerdict,
    asked_scopes,
    assertion_claims,
    cookie_digest,
    is_idle,
    is_own_token,
    known_values,
    state_of,
    told,
    verdict,
)
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ClientSecretId, SessionId, UserKeyId
from core.domain.identity.browser_sessions import frames
from core.domain.identity.devices import Client
from core.domain.key_proofs import key_of
from core.domain.secrets import Token
from core.domain.services.proxies import return_addresses
from core.frozen import Frozen
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.identity.sessions import Sessions
from ports.crypto import TokenVerifier
from ports.federation.oauth import ClientLookup, ProxyAssertions, ProxyLookup
from ports.system import Presence, System

_NOBODYS: Final[Mapping[str, Json]] = {}


class CheckedRequest(Frozen):
    """An application whose proxy has asked, and what becomes of the request."""

    found: FoundProxy
    given: ProxyVerdict


class BegunSignIn(Frozen):
    """Where the browser goes, and what it keeps until it comes back."""

    address: str
    state: str
    verifier: Token


class ProxyChecks(Frozen):
    """The sign-in is that of any application, by a code; the proxy redirects the browser's return to Postern, and the session's cookie
    belongs to that host.
    """

    lookup: ProxyLookup
    clients: ClientLookup
    codes: AuthorizationCodes
    sessions: Sessions
    verifier: TokenVerifier
    assertions: ProxyAssertions
    presence: Presence[SessionId]
    key_presence: Presence[UserKeyId]
    secret_presence: Presence[ClientSecretId]
    system: System
    issuer: str

    async def check(self, request: ProxiedRequest) -> CheckedRequest | None:
        """What becomes of the request. None when the proxy shows no secret of an application."""
        found = await self.lookup.find(request)
        if found is None:
            return None
        now = self.system.clock.now()
        self.secret_presence.seen(found.secret, now)
        own = bool(request.own_token) and is_own_token(await self._claims(request.own_token), found)
        given = verdict(found, request, now, own_token=own)
        person = given.person
        if person is not None and person.session is not None:
            self.presence.seen(person.session, now)
        elif person is not None and person.key is not None:
            self.key_presence.seen(person.key.id, now)
        return CheckedRequest(found, given)

    async def client_at(self, host: str) -> ClientId | None:
        """The application of a host, for the record of its refusals."""
        return await self.lookup.client_at(host)

    async def told(self, checked: CheckedRequest, host: str) -> tuple[tuple[tuple[str, str], ...], str]:
        """The headers, and the assertion. The assertion is empty where nobody comes."""
        values = known_values(checked.given.person)
        headers = told(checked.found.settings, values)
        if checked.given.person is None and not checked.given.of_application:
            return headers, ""
        now = self.system.clock.now()
        claims = assertion_claims(checked.found, host, checked.given, values, issuer=self.issuer, now=now)
        return headers, await self.assertions.signed(claims, now)

    def begin(self, found: FoundProxy, host: str, *, again: bool) -> BegunSignIn:
        """A sign-in at the base address. `again`: the person was away for too long, and must prove who they are."""
        verifier = self.system.secrets.token()
        state = state_of(verifier)
        parameters = {
            "client_id": found.client,
            "redirect_uri": return_addresses((host,))[0],
            "response_type": "code",
            "scope": " ".join(asked_scopes(found.settings)),
            "state": state,
            "code_challenge": code_challenge(verifier),
            "code_challenge_method": "S256",
            **({"prompt": "login"} if again else {}),
        }
        return BegunSignIn(f"{self.issuer}{AUTHORIZATION_ENDPOINT}?{urlencode(parameters)}", state, verifier)

    async def redeem(self, found: FoundProxy, request: ProxiedRequest, code: Token, verifier: Token, sender: Client) -> Token:
        """The cookie of the new session. Raises `InvalidGrant` for a code that is used, old, or another application's, host's or browser's;
        and `OrganizationNotActive`.
        """
        registered = await self.clients.find(found.client, request.secret)
        if registered is None or registered.secret is None:
            raise InvalidGrant(detail="the secret ended meanwhile")
        require_open(registered)
        client = AuthenticatedClient(registered, AuthenticationMethod.BASIC)
        grant = TokenRequest(
            grant_type=AUTHORIZATION_CODE, code=code, redirect_uri=return_addresses((request.host,))[0], code_verifier=verifier
        )
        granted = await self.codes.redeem_for_browser(grant, client, sender, lambda cookie: cookie_digest(request.host, cookie))
        return granted.opened.refresh_token

    def was_idle(self, found: FoundProxy) -> bool:
        return found.person is not None and is_idle(found.person, found.settings, self.system.clock.now())

    async def sign_out(self, found: FoundProxy, person: ProxiedPerson, sender: Client, *, everywhere: bool) -> Sequence[str]:
        """Ends the session of this host; or the browser's, and with it all that was opened from it. May be repeated. Returns the pages of
        other applications that the browser has to load in frames: of this organization alone, whose proxy reads the page.
        """
        session = person.parent if everywhere and person.parent is not None else person.session
        if session is None:
            return ()
        ended = await self.sessions.sign_out(session, sender.actor(person.user))
        return frames((one for one in ended if one.organization == found.organization), self.sessions.issuer)

    async def _claims(self, token: str) -> Mapping[str, Json]:
        try:
            claims = await self.verifier.verify_issued(token)
        except (TokenExpired, TokenInvalid):
            return _NOBODYS
        # A proof is made for the address of the application, which the proxy keeps from us.
        return claims if key_of(claims) is None else _NOBODYS
