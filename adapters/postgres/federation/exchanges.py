"""Exchanges in PostgreSQL. The rules of the way from a session to the person's own application stand in the schema, in `exchange_root`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.federation.given_sessions import IS_OPEN_HERE
from adapters.postgres.federation.resources import scopes_for
from adapters.postgres.identity.sessions.audiences import IS_OPEN, kept_audiences, lifetime
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements, first
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.callers import ITS_PERSON_AND_AGENT
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import Transaction
from core.domain.federation.oauth.exchanges import Exchangeable, SubjectToken, TokenExchange
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import ResourceServerId, ServiceId
from core.domain.identity.sessions import acting
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen


class _Found(Frozen):
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
    """Implements `ports.federation.oauth.ExchangeStore`."""

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
        found = first(await self._statements.ask(_Found, FIND, parameters))
        return None if found is None else found.exchangeable()

    async def add(self, exchange: TokenExchange) -> bool:
        rows = await self._statements.ask(
            IdRow,
            ADD,
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
FIND: Final[LiteralString] = f"""
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
ADD: Final = """
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
