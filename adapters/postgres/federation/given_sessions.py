"""Sessions of applications in PostgreSQL. One look-up finds a session together with the client that asks about the session."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.clients import CLIENT, ITS_SERVICE, ClientRow, digests
from adapters.postgres.identity.factors.mfa import OWES_SECOND_FACTOR
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.agents import may_act
from adapters.postgres.identity.sessions.audiences import IS_BY_ASSERTION, IS_OPEN, admits_service, is_held, is_reached, open_audiences
from adapters.postgres.identity.sessions.liveness import AUTHENTICATES, IS_LIVE, lost_nothing_since
from adapters.postgres.identity.terms.demands import OWES_TERMS
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask, ask_in_order
from adapters.postgres.tenancy.callers import ITS_PERSON_AND_AGENT
from adapters.postgres.ties import counts_for
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.given_sessions import GivenSession, LivingAudience, LivingSession, StandingApi
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.services.clients import shown
from core.frozen import Frozen

_Shown = tuple[ClientId, bytes | None]
_Asked = tuple[ClientId, bytes | None, SessionId, UserId]
_Found = tuple[RegisteredClient, LivingSession | None]
_AskedAt = tuple[ClientId, bytes | None, SessionId, UserId, ResourceServerId]
_FoundAt = tuple[RegisteredClient, LivingAudience | None]


def _columns(*columns: Any) -> tuple[Any, ...]:
    return columns


class _Given(Frozen):
    session_id: UUID
    user_id: UUID
    email: str
    client_id: str
    organization_id: UUID
    service_id: UUID
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    is_agent: bool
    is_open: bool

    def given(self) -> GivenSession:
        return GivenSession(
            session=SessionId(self.session_id),
            user=UserId(self.user_id),
            email=self.email,
            client=shown(ClientId(self.client_id)),
            organization=OrganizationId(self.organization_id),
            service=ServiceId(self.service_id),
            scopes=tuple(self.scopes),
            created_at=self.created_at,
            expires_at=self.expires_at,
            is_open=self.is_open,
            is_agent=self.is_agent,
        )


class _Api(Frozen):
    stands: UUID | None

    def standing(self) -> StandingApi:
        return StandingApi(None if self.stands is None else ServiceId(self.stands))


class PostgresGivenSessions:
    """Implements `ports.federation.oauth.GivenSessionLookup`. Look-ups that arrive at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sessions = SharedLookups(self._find)
        self._at_resources = SharedLookups(partial(self._find_at_resources, FIND_AT_RESOURCE))
        self._exchanged = SharedLookups(partial(self._find_at_resources, FIND_EXCHANGED))

    async def find(self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId) -> _Found | None:
        return await self._sessions.find((client, secret_digest, session, user))

    async def find_at_resource(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> _FoundAt | None:
        return await self._at_resources.find((client, secret_digest, session, user, resource))

    async def find_exchanged(
        self, client: ClientId, secret_digest: bytes | None, session: SessionId, user: UserId, resource: ResourceServerId
    ) -> _FoundAt | None:
        return await self._exchanged.find((client, secret_digest, session, user, resource))

    async def find_api(self, resource: ResourceServerId, holder: ServiceId) -> StandingApi | None:
        rows = await ask(self._pool, _Api, _FIND_API, {"resource": resource, "holder": holder})
        return rows[0].standing() if rows else None

    async def find_by_refresh_token(self, digest: bytes) -> GivenSession | None:
        rows = await ask(self._pool, _Given, _FIND_BY_REFRESH_TOKEN, {"digest": digest})
        return rows[0].given() if rows else None

    async def _find_at_resources(self, statement: LiteralString, asked: Sequence[_AskedAt]) -> Mapping[_AskedAt, _FoundAt]:
        shown = list(dict.fromkeys([one[:2] for one in asked]))
        parameters = {
            **_clients(shown),
            "sessions": array([session.hex for _, _, session, _, _ in asked]),
            "users": array([user.hex for _, _, _, user, _ in asked]),
            "resources": array([resource.hex for *_, resource in asked]),
        }
        clients: dict[_Shown, RegisteredClient] = {}
        living: dict[_AskedAt, LivingAudience] = {}
        for place, email, holder, stands, scopes, *of_client in await ask_in_order(self._pool, _columns, statement, parameters):
            if of_client[0] is not None:
                client = shown[place - 1]
                clients[client] = ClientRow(*of_client).client(client[0])
            if email is not None:
                standing = None if stands is None else ServiceId(stands)
                living[asked[place - 1]] = LivingAudience(email, ServiceId(holder), standing, tuple(scopes))
        return {one: (clients[one[:2]], living.get(one)) for one in asked if one[:2] in clients}

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, _Found]:
        # Most look-ups that share a round trip come from a few busy clients. Each client is looked up once.
        shown = list(dict.fromkeys([(client, digest) for client, digest, _, _ in asked]))
        parameters = {
            **_clients(shown),
            "sessions": array([session.hex for _, _, session, _ in asked]),
            "users": array([user.hex for _, _, _, user in asked]),
        }
        clients: dict[_Shown, RegisteredClient] = {}
        living: dict[_Asked, LivingSession] = {}
        for place, organization, email, *of_client in await ask_in_order(self._pool, _columns, FIND, parameters):
            if of_client[0] is not None:
                client = shown[place - 1]
                clients[client] = ClientRow(*of_client).client(client[0])
            if organization is not None:
                living[asked[place - 1]] = LivingSession(OrganizationId(organization), email)
        return {one: (clients[one[:2]], living.get(one)) for one in asked if one[:2] in clients}


def _clients(shown: Sequence[_Shown]) -> Mapping[str, Any]:
    return {"clients": array([client for client, _ in shown]), "digests": digests([digest for _, digest in shown])}


_THE_CLIENT_ASKED_FOR: Final[LiteralString] = f"""
      left join lateral (select {CLIENT} from (values (true)) as this (look) {ITS_SERVICE}) as client ({", ".join(ClientRow._fields)})
             on asked.client is not null
"""
# The session of a person in a service lets them in now.
IS_OPEN_HERE: Final[LiteralString] = f"""
    {IS_LIVE}
    and sessions.service_id is not null
    and {admits("organizations.role is not null", "sessions.user_id")}
    and not organizations.owes_something
    and {may_act("sessions")}
"""

# For each session and client, the statement looks once into each index: `adapters/postgres/tenancy/callers.py` gives the reason. The
# client and the session of one row are unrelated. There are fewer clients than sessions, so the rows after the last client have nulls.
FIND: Final[LiteralString] = f"""
    select asked.place, living.organization_id, living.email, client.*
      from unnest((select %(clients)s::text[]), (select %(digests)s::text[]), (select %(sessions)s::uuid[]), (select %(users)s::uuid[]))
           with ordinality as asked (client, digest, session, person, place)
      {_THE_CLIENT_ASKED_FOR}
      left join lateral (
                select sessions.organization_id, users.email
                  from (select * from sessions where id = asked.session and user_id = asked.person limit 1) as sessions
                       {ITS_PERSON_AND_AGENT}
                 where {IS_OPEN_HERE}
                 limit 1
           ) as living on true
"""

_ASKED_AT: Final[LiteralString] = f"""
    select asked.place, living.email, living.service_id, living.stands, living.scopes, client.*
      from unnest(
               (select %(clients)s::text[]), (select %(digests)s::text[]), (select %(sessions)s::uuid[]), (select %(users)s::uuid[]),
               (select %(resources)s::uuid[])
           ) with ordinality as asked (client, digest, session, person, resource, place)
      {_THE_CLIENT_ASKED_FOR}
"""

# The same for a session at an API. The API must still be open to the session's application.
FIND_AT_RESOURCE: Final[LiteralString] = f"""
    {_ASKED_AT}
      left join lateral (
                select users.email, sessions.service_id, resource_servers.service_id as stands, open.scopes
                  from (select * from sessions where id = asked.session and user_id = asked.person limit 1) as sessions
                 cross join lateral jsonb_to_recordset({open_audiences("sessions", spared=IS_BY_ASSERTION)})
                    as open (id uuid, scopes text[])
                  join resource_servers on resource_servers.id = open.id and resource_servers.id = asked.resource
                       {ITS_PERSON_AND_AGENT}
                 where {IS_OPEN_HERE}
                 limit 1
           ) as living on true
"""

# The same for the session of an exchange. `sessions` is the one of the person's own application.
FIND_EXCHANGED: Final[LiteralString] = f"""
    {_ASKED_AT}
      left join lateral (
                select users.email, exchanged.service_id, resource_servers.service_id as stands,
                       array(
                           select scope.own ->> 'name'
                             from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                            where scope.own ->> 'name' = any (given.scopes) and {is_held("scope.own", "exchanged.user_id")}
                              and {is_reached("scope.own", "sessions.authenticated_by")} and scope.own ->> 'name' = any (exchange.leaves)
                            order by scope.place
                       ) as scopes
                  from (
                           select *, exchange_root(id, user_id) as root
                             from sessions
                            where id = asked.session and user_id = asked.person and exchanged_from is not null
                            limit 1
                       ) as exchanged
                 cross join lateral jsonb_to_recordset(exchanged.audiences) as given (resource_id uuid, scopes text[])
                  join resource_servers on resource_servers.id = given.resource_id and resource_servers.id = asked.resource
                 cross join lateral (select * from sessions where sessions.id = exchanged.root limit 1) as sessions
                 cross join lateral (
                           select exchange_leaves(sessions, resource_servers, exchanged.service_id) as leaves offset 0
                       ) as exchange
                       {ITS_PERSON_AND_AGENT}
                 where {IS_OPEN_HERE}
                 limit 1
           ) as living on true
"""

_FIND_API: Final[LiteralString] = f"""
    select resource_servers.service_id as stands
      from resource_servers
     where resource_servers.id = %(resource)s and {IS_OPEN} and {admits_service("%(holder)s")}
"""

# A session that was granted APIs is open while one of them is: without one, a refresh gives nothing.
_FIND_BY_REFRESH_TOKEN: Final[LiteralString] = f"""
    select sessions.id as session_id, sessions.user_id, users.email, services.oauth_client_id as client_id, sessions.organization_id,
           sessions.service_id, sessions.scopes, sessions.created_at, least(sessions.expires_at, sessions.ends_at) as expires_at,
           services.is_agent,
           tokens.rotated_at is null and {IS_LIVE} and {may_act("sessions")}
           and (sessions.audiences is null or {open_audiences("sessions")} is not null)
           and {admits("memberships.role is not null", "sessions.user_id")}
           and not {OWES_SECOND_FACTOR} and not {OWES_TERMS}
           and ({AUTHENTICATES} or {lost_nothing_since("sessions.created_at")}) as is_open
      from refresh_tokens as tokens
      join sessions on sessions.id = tokens.session_id
      join users on users.id = sessions.user_id
      join organizations on organizations.id = sessions.organization_id
      join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and {counts_for()}
     where tokens.digest = %(digest)s and sessions.scopes is not null
"""
