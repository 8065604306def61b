"""Sessions of applications in PostgreSQL, their token exchange, and the logout notices of their end."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, IdRow, array, page_of, storable_text
from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.clients import CLIENT, ITS_SERVICE, ClientRow, digests
from adapters.postgres.federation.consents import scopes_for
from adapters.postgres.identity.factors.mfa import OWES_SECOND_FACTOR
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import (
    AUTHENTICATES,
    IS_BY_ASSERTION,
    IS_LIVE,
    IS_OPEN,
    SAID_BY_HOOKS,
    admits_service,
    is_held,
    is_reached,
    kept_audiences,
    lifetime,
    lost_nothing_since,
    may_act,
    noticing,
    open_audiences,
)
from adapters.postgres.identity.terms import OWES_TERMS
from adapters.postgres.record.deliveries import DeliveryTables
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import Statements, Transaction, ask, ask_in_order, first
from adapters.postgres.tenancy.callers import ITS_PERSON_AND_AGENT
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, counts_for
from core.domain.federation.logouts import DueNotice, LogoutNotice
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.exchanges import Exchangeable, SubjectToken, TokenExchange
from core.domain.federation.oauth.given_sessions import GivenSession, LivingAudience, LivingSession, StandingApi
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import acting
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.domain.services.clients import shown
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen
from ports.federation.oauth import ClaimedService

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
    """Implements `ports.federation.oauth.GivenSessionLookup`. Look-ups that arrive at once share a round trip.

    One look-up finds a session together with the client that asks about the session.
    """

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
        for place, organization, email, *of_client in await ask_in_order(self._pool, _columns, FIND_GIVEN_SESSION, parameters):
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
# Hooks have said no about the sign-in that the session goes back to.
_IS_REFUSED: Final[LiteralString] = f"{SAID_BY_HOOKS} is not null"

# The session of a person in a service lets them in now.
IS_OPEN_HERE: Final[LiteralString] = f"""
    {IS_LIVE}
    and sessions.service_id is not null
    and {admits("organizations.role is not null", "sessions.user_id")}
    and not organizations.owes_something
    and {may_act("sessions")}
    and not ({_IS_REFUSED})
"""

# For each session and client, the statement looks once into each index: `adapters/postgres/tenancy/callers.py` gives the reason. The
# client and the session of one row are unrelated. There are fewer clients than sessions, so the rows after the last client have nulls.
FIND_GIVEN_SESSION: Final[LiteralString] = f"""
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
           and not {OWES_SECOND_FACTOR} and not {OWES_TERMS} and not ({_IS_REFUSED})
           and ({AUTHENTICATES} or {lost_nothing_since("sessions.created_at")}) as is_open
      from refresh_tokens as tokens
      join sessions on sessions.id = tokens.session_id
      join users on users.id = sessions.user_id
      join organizations on organizations.id = sessions.organization_id
      join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and {counts_for()}
     where tokens.digest = %(digest)s and sessions.scopes is not null
"""


class _FoundExchange(Frozen):
    ends_at: datetime
    act: Mapping[str, Any] | None
    is_listed: bool
    target: UUID | None
    identifier: str
    """Without a target, this and what follows of it is null."""
    name: str
    scopes: Sequence[Any]
    lifetime: int | None
    algorithm: str
    bounds: Sequence[str] | None
    leaves: Sequence[str] | None
    is_first: bool

    def exchangeable(self) -> Exchangeable:
        return Exchangeable(
            ends_at=self.ends_at,
            acting=acting(self.act),
            is_listed=self.is_listed,
            target=self._target(),
            bounds=self.bounds,
            left=self.leaves or (),
            is_first=self.is_first,
        )

    def _target(self) -> OfferedResource | None:
        if self.target is None or self.leaves is None:
            return None
        return OfferedResource(
            id=ResourceServerId(self.target),
            identifier=self.identifier,
            name=self.name,
            scopes=[OfferedScope(**scope) for scope in self.scopes],
            lifetime=lifetime(self.lifetime),
            algorithm=TokenAlgorithm(self.algorithm),
        )


class ExchangeRows:
    """Implements `ports.federation.oauth.ExchangeStore`.

    The rules of the way from a session to the user's own application are in the schema, in `exchange_root`.
    """

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def find(self, subject: SubjectToken, service: ServiceId, resource: str) -> Exchangeable | None:
        parameters = {
            "session": subject.session,
            "user": subject.user,
            "audience": subject.audience,
            "service": service,
            "identifier": storable_text(resource),
        }
        found = first(await self._statements.ask(_FoundExchange, FIND_EXCHANGE, parameters))
        return None if found is None else found.exchangeable()

    async def add(self, exchange: TokenExchange) -> bool:
        rows = await self._statements.ask(
            IdRow,
            ADD_EXCHANGED,
            {
                "id": exchange.session,
                "service": exchange.client.service,
                "at": exchange.created_at,
                "ends_at": exchange.ends_at,
                "audiences": kept_audiences([exchange.audience]),
                "act": Jsonb(exchange.acting.claim),
                "exchanged_from": exchange.subject.audience,
                "parent": exchange.subject.session,
                "user": exchange.subject.user,
            },
        )
        return bool(rows)


# `sessions` is the session of the person's own application, which must let the person in.
FIND_EXCHANGE: Final[LiteralString] = f"""
    select least(subject.expires_at, subject.ends_at) as ends_at,
           coalesce(subject.act, case when services.is_agent then (
               select jsonb_build_object('sub', split_part(agents.oauth_client_id, '#', 1))
                 from services as agents
                where agents.id = services.id
           ) end) as act,
           exists (
               select from memberships
                where memberships.org_id = subject.organization_id and memberships.user_id = subject.user_id and not {IS_OWN_MEMBERSHIP}
               offset 0
           ) as is_listed,
           resource_servers.id as target, resource_servers.identifier, resource_servers.name,
           case when resource_servers.id is null then '[]' else {scopes_for("%(user)s::uuid")} end as scopes,
           resource_servers.token_lifetime as lifetime, resource_servers.access_token_alg as algorithm,
           exchange_bounds(subject.id, resource_servers.id) as bounds,
           case when resource_servers.id is not null then exchange_leaves(sessions, resource_servers, %(service)s) end as leaves,
           not exists (
               select from sessions as earlier
                where earlier.parent_id = subject.id and earlier.service_id = %(service)s and earlier.exchanged_from is not null
                  and earlier.audiences @> jsonb_build_array(jsonb_build_object('resource_id', resource_servers.id::text))
           ) as is_first
      from sessions as subject
     cross join lateral (
                select case when subject.exchanged_from is null then subject.id else exchange_root(subject.id, subject.user_id) end as id
                offset 0
           ) as root
      join sessions on sessions.id = root.id
           {ITS_PERSON_AND_AGENT}
      left join resource_servers on resource_servers.org_id = subject.organization_id and resource_servers.identifier = %(identifier)s
            and {IS_OPEN} and resource_takes_exchanges(resource_servers, %(service)s)
     where subject.id = %(session)s and subject.user_id = %(user)s and subject.depth < 32
       and subject.impersonator_id is null and sessions.impersonator_id is null
       and session_is_exchangeable(subject, %(audience)s, %(service)s)
       and {IS_OPEN_HERE}
"""

# The account is locked first, and the subject's session second, as in every statement that opens a session from another one: a lock reads
# the newest row.
ADD_EXCHANGED: Final = """
    with account as materialized (select id from users where id = %(user)s and deactivated_at is null for share),
         parent as materialized (
             select sessions.*
               from sessions
              where id = %(parent)s and user_id = (select id from account)
                and revoked_at is null and expires_at > now() and ends_at > now()
                for share
         )
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, parent_id, depth, proved_at, second_factor_at, stated_at, refuses_applications, scopes,
                          audiences, act, exchanged_from, expires_day)
    select %(id)s, user_id, device_id, organization_id, %(service)s, %(at)s, %(at)s, %(ends_at)s, %(ends_at)s,
           authenticated_by, id, depth + 1, proved_at, second_factor_at, stated_at, refuses_applications, '{}',
           %(audiences)s, %(act)s, %(exchanged_from)s, (%(ends_at)s::timestamptz at time zone 'UTC')::date
      from parent
 returning id
"""


LOGOUT_NOTICE: Final = Columns(LogoutNotice, "logout_notices", named={"session": "session_id", "user": "user_id"})


class _Claim(Frozen):
    """One row of nulls when nothing was claimed. `url` is null also when the service's address was removed at this moment."""

    last: UUID | None
    id: UUID | None
    lease: UUID
    org_id: UUID
    url: str | None
    client_id: str
    id_token_alg: str | None

    def claimed(self, *, failing: bool) -> ClaimedService | None:
        if self.id is None or self.url is None:
            return None
        return ClaimedService(
            id=self.id,
            organization=OrganizationId(self.org_id),
            url=self.url,
            is_failing=failing,
            lease=self.lease,
            client=ClientId(self.client_id),
            algorithm=TokenAlgorithm(self.id_token_alg or TokenAlgorithm.RS256),
        )


class _Due(Frozen):
    id: UUID
    attempts: int
    session_id: UUID
    user_id: UUID

    def due(self) -> DueNotice:
        return DueNotice(SessionId(self.session_id), UserId(self.user_id), id=self.id, attempts=self.attempts)


class PostgresLogoutNotices:
    """Implements `ports.federation.oauth.LogoutNoticeLookup`.

    `identity/sessions/parts.py` writes the notices.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(self, organization: OrganizationId, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice] | None:
        wanted = {"organization": organization, "slug": storable_text(slug), "delivered": delivered}
        parameters = {**wanted, "limit": page.limit, "offset": page.offset, "most": MOST_ROWS_COUNTED}
        rows = await ask(self._pool, LOGOUT_NOTICE.counted, LIST_LOGOUT_NOTICES, parameters)
        return page_of(rows) if rows else None


LOGOUTS: Final[DeliveryTables[ClaimedService, DueNotice]] = DeliveryTables(
    waiting="logout_notices",
    of="service_id",
    receivers="logout_receivers",
    key="service_id",
    joins="join services on services.id = logout_receivers.service_id join organizations on organizations.id = services.org_id",
    may_be_called="services.backchannel_logout_uri is not null and organizations.status = 'active'",
    row=_Claim,
    columns=(
        "services.id, services.org_id, services.backchannel_logout_uri as url, services.oauth_client_id as client_id, services.id_token_alg"
    ),
    claimed_joins="left join services on services.id = claimed.service_id",
    due_row=_Due,
    due_columns="deliveries.session_id, deliveries.user_id",
    due_order="deliveries.id",
)

_WANTED: Final = """
                 logout_notices.service_id = services.id and logout_notices.stream_id is null
             and (%(delivered)s::boolean is null or (logout_notices.delivered_at is not null) = %(delivered)s)
"""

LIST_LOGOUT_NOTICES: Final[LiteralString] = f"""
    select counted.total, {LOGOUT_NOTICE.names_in("listed")}
      from services
     cross join lateral (
               select count(*) as total from (select from logout_notices where {_WANTED} limit %(most)s) as rows
           ) as counted
      left join lateral (
               select *
                 from logout_notices
                where {_WANTED}
                order by logout_notices.id desc
                limit %(limit)s offset %(offset)s
           ) as listed on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by listed.id desc
"""

# The janitor runs this statement, which writes notices for sessions that expired since the last run, in the order of their expiry. Each
# notice waits a minute after the expiry, because clocks differ and a session may still be renewed until then. A revoked session has its
# notice already. The count of rows is the number of sessions that the statement looked at.
EXPIRE_LOGOUT_NOTICES: Final[LiteralString] = f"""
    with since as materialized (
             select greatest((select seen_until from logout_expiry), now() - interval '1 day') as at
              where (exists (select from logout_receivers) or exists (select from signal_streams)) and {BELIEVED}
         ),
         batch as materialized (
             select expired.id, expired.expires_at
               from since
              cross join lateral (
                        select id, expires_at
                          from sessions
                         where expires_at > since.at and expires_at <= now() - interval '1 minute'
                         order by expires_at
                         fetch first (%(limit)s) rows with ties
                    ) as expired
         ),
         held as (
             select id, user_id, service_id, expires_at
               from sessions
              where id = any (array(select id from batch)) and revoked_at is null and service_id is not null
              order by id
                for no key update
         ),
         noticed as ({noticing("held", by_policy=True)}),
         moved as (
             insert into logout_expiry (seen_until)
             select coalesce((select max(expires_at) from batch having count(*) >= %(limit)s), now() - interval '1 minute')
               from since
                 on conflict (is_only) do update set seen_until = greatest(logout_expiry.seen_until, excluded.seen_until)
         )
  select from batch
"""

# The janitor runs this statement, which gives up notices that nobody has received within a day. Services that are not called any longer
# have such notices, too.
FORSAKE_LOGOUT_NOTICES: Final[LiteralString] = f"""
    update logout_notices
       set next_at = null, error = coalesce(error, 'not called'), updated_at = now()
     where {BELIEVED} and id in (
               select id
                 from logout_notices
                where next_at is not null and created_at < now() - interval '1 day'
                order by created_at
                limit %(limit)s
                  for update skip locked
           )
"""
