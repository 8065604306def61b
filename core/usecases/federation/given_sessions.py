"""The token endpoints for issued sessions: introspection, revocation and userinfo."""

from collections.abc import Mapping
from typing import Final

from core.domain.claims import NO_FACTS, ClaimPlace, DescribedPerson, values
from core.domain.errors import Unauthorized
from core.domain.federation.oauth.clients import AuthenticatedClient, ClientCredentials
from core.domain.federation.oauth.given_sessions import (
    ReadToken,
    client_named,
    is_of,
    of_refresh_token,
    placed_by,
    read,
    repeated,
    resource_named,
    session_named,
)
from core.domain.federation.oauth.oidc import person_said, standard_profile
from core.domain.formats import Json
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.refresh_tokens import LONGEST_REFRESH_TOKEN
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.federation.clients import Clients, require_credential
from core.usecases.identity.sessions import Sessions
from ports.crypto import TokenVerifier
from ports.federation.oauth import ClientLookup, DocumentLookup, GivenSessionLookup
from ports.identity.accounts import FactLookup

INACTIVE: Final[Mapping[str, Json]] = {"active": False}
# A remembered token takes some kilobytes.
_MOST_TOKENS: Final = 4_000


class GivenSessions:
    """Introspects tokens for the servers that receive them (RFC 7662), and revokes tokens for the clients that hold them (RFC 7009)."""

    def __init__(
        self,
        clients: Clients,
        client_lookup: ClientLookup,
        lookup: GivenSessionLookup,
        verifier: TokenVerifier,
        sessions: Sessions,
        *,
        documents: DocumentLookup,
        issuer: str,
    ) -> None:
        self._clients = clients
        self._client_lookup = client_lookup
        self._lookup = lookup
        self._verifier = verifier
        self._sessions = sessions
        self._documents = documents
        self._issuer = issuer
        self._tokens: dict[Json, ReadToken] = {}

    async def introspect(self, credentials: ClientCredentials, token: Token) -> tuple[AuthenticatedClient, Mapping[str, Json]]:
        """The claims of a token that is good at this moment and was given for a service of the client's own organization. A token for an
        API is shown to the service that stands for the API, and to the client that has the token. All other tokens get `INACTIVE`, without
        a reason. An access token and the client are looked up in one round trip. Raises `Unauthorized` and `OrganizationNotActive`.
        """
        claims = await self._claims(token)
        given_token = None if claims is None else self._read(claims)
        if given_token is not None:
            return await self._of_session(credentials, given_token)
        client = await self._authenticated(credentials)
        if claims is not None:
            return client, await self._of_client(client, claims)
        given = await self._lookup.find_by_refresh_token(token.digest()) if _is_plausible(token) else None
        if given is None or not given.is_open or given.organization != client.registered.organization:
            return client, INACTIVE
        return client, of_refresh_token(given, self._issuer, client.registered)

    async def holder(self, client: ClientId, token: Token) -> ClientId | None:
        """The placed client id of the metadata client that a token was given to. None when it is another client's, or nobody's."""
        claims = await self._claims(token)
        if claims is None:
            return await self._documents.holder(client, token.digest()) if _is_plausible(token) else None
        return placed_by(claims, client)

    async def revoke(self, client: AuthenticatedClient, token: Token, sender: Client) -> None:
        """Ends the token's session if the token is the client's. A token of another client has no effect (RFC 7009 section 2.2)."""
        claims = await self._claims(token)
        if claims is not None:
            named = session_named(claims)
            # The person did not give the session of a platform owner who acts in the person's name, so the client cannot end that session.
            if named is not None and "impersonator" not in claims and is_of(claims, client.registered):
                session, user = named
                await self._sessions.sign_out(session, _actor(client, sender, user))
            return
        given = await self._lookup.find_by_refresh_token(token.digest()) if _is_plausible(token) else None
        if given is not None and given.service == client.registered.service:
            await self._sessions.sign_out(given.session, _actor(client, sender, given.user))

    async def _of_session(self, credentials: ClientCredentials, token: ReadToken) -> tuple[AuthenticatedClient, Mapping[str, Json]]:
        secret = None if credentials.secret is None else credentials.secret.digest()
        if token.resource is not None:
            look = self._lookup.find_exchanged if token.is_exchanged else self._lookup.find_at_resource
            at = await look(credentials.client, secret, token.session, token.user, token.resource)
            asking, audience = (None, None) if at is None else at
            client = await self._clients.confirm(asking, credentials)
            require_credential(client)
            if audience is None or not audience.may_be_asked_by(client.registered):
                return client, INACTIVE
            return client, {**token.told, **audience.told(token.claims, client.registered)}
        found = await self._lookup.find(credentials.client, secret, token.session, token.user)
        registered, living = (None, None) if found is None else found
        client = await self._clients.confirm(registered, credentials)
        require_credential(client)
        if living is None or living.organization != client.registered.organization:
            return client, INACTIVE
        return client, {**token.told, "username": living.email}

    async def _of_client(self, client: AuthenticatedClient, claims: Mapping[str, Json]) -> Mapping[str, Json]:
        """The claims of an application's own token, which is good while the application exists. A token for an API is good while the API
        is open to the application.
        """
        named, resource = client_named(claims), resource_named(claims)
        holder = None if named is None else await self._client_lookup.find(named, None)
        if holder is None or holder.organization != client.registered.organization:
            return INACTIVE
        if resource is not None:
            api = await self._lookup.find_api(resource, holder.service)
            if api is None or client.registered.service not in {holder.service, api.stands}:
                return INACTIVE
        return repeated(claims)

    async def _authenticated(self, credentials: ClientCredentials) -> AuthenticatedClient:
        client = await self._clients.authenticate(credentials)
        require_credential(client)
        return client

    def _read(self, claims: Mapping[str, Json]) -> ReadToken | None:
        """Remembers the parsed claims: the verifier gives the same claims for a token as long as the verifier remembers the token."""
        name = claims.get("jti")
        known = self._tokens.get(name)
        if known is None or known.claims is not claims:
            known = read(claims)
            if known is None:
                return None
            if len(self._tokens) >= _MOST_TOKENS:
                self._tokens.clear()
            self._tokens[name] = known
        return known

    async def _claims(self, token: Token) -> Mapping[str, Json] | None:
        """None when the text is no valid access token of ours."""
        try:
            return await self._verifier.verify_issued(token.reveal())
        except Unauthorized:
            return None


def _actor(client: AuthenticatedClient, sender: Client, user: UserId) -> Actor:
    """The person whose session ends, with the agent that gives it back."""
    actor = sender.actor(user)
    return replace(actor, agent=client.registered.client) if client.registered.is_agent else actor


def _is_plausible(token: Token) -> bool:
    return len(token.reveal()) <= LONGEST_REFRESH_TOKEN


class Userinfo(Frozen):
    """Answers userinfo requests: the claims about a user, for an application that presents its access token."""

    facts: FactLookup
    issuer: str

    async def claims(self, caller: Caller) -> Mapping[str, Json]:
        """The claims that the scopes of the session's application release. Only a service or a person with more than the account costs a
        round trip.
        """
        facts = NO_FACTS if caller.facts_of is None else await self.facts.find(caller.facts_of, caller.user)
        person = DescribedPerson(
            user=caller.user,
            email=caller.email,
            email_is_verified=caller.email_is_verified,
            organization=caller.organization_id,
            organization_slug=caller.organization,
            role=caller.role,
            profile=standard_profile(caller.profile, caller.language),
            facts=facts,
        )
        return values(person_said(caller.scopes or (), person, ClaimPlace.USERINFO, issuer=self.issuer))
