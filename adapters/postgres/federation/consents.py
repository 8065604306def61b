"""The APIs that requests name, what people allow applications, and the applications that can act for a person."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import array, array_of_texts, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.clients import LETS_IN, provenance
from adapters.postgres.identity.sessions.parts import (
    CONSENT_LIVES,
    IS_BY_ASSERTION,
    IS_OPEN,
    admits_service,
    ending_codes,
    is_held,
    lifetime,
    may_act,
    revoking,
)
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import Statements, Transaction, ask_in_order, first
from core.domain.branding import logo_path
from core.domain.federation.oauth.consents import (
    AgentGrant,
    AgentReach,
    AllowedResource,
    ApplicationAccess,
    Consent,
    ConsentedService,
    UnplacedClient,
)
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import AgentGrantId, ClientId, ConsentId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.services.clients import document_host, is_open
from core.domain.tokens import TokenAlgorithm
from core.frozen import values_of


def _access(
    *,
    client_id: str,
    is_agent: bool,
    scopes: list[str] | None,
    resources: Sequence[Mapping[str, Any]],
    logo_digest: str | None,
    **columns: Any,
) -> ApplicationAccess:
    client, allowed = ClientId(client_id), [_allowed(**row) for row in resources]
    return ApplicationAccess(
        scopes=tuple(scopes or ()),
        resources=allowed,
        document_host=document_host(client),
        is_open=is_open(client),
        agent=client if is_agent else None,
        logo=None if logo_digest is None else logo_path(logo_digest),
        **columns,
    )


def _allowed(*, id: str, expires_at: float | None, last_used_at: float | None, **columns: Any) -> AllowedResource:  # noqa: A002 - the noun's own word
    return AllowedResource(ResourceServerId(UUID(id)), expires_at=_moment(expires_at), last_used_at=_moment(last_used_at), **columns)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


class ConsentRows:
    """Implements `ports.federation.oauth.ConsentStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        return await self._statements.ask(_access, LIST_CONSENTS, {"user": user})

    async def list_grants(
        self, organization: OrganizationId, reach: AgentReach, before: AgentGrantId | None, limit: int
    ) -> Sequence[AgentGrant]:
        parameters = values_of(reach) | {"organization": organization, "before": before, "limit": limit}
        return await self._statements.ask(AgentGrant, LIST_GRANTS, parameters)

    async def find_grant(self, organization: OrganizationId, grant: AgentGrantId) -> AgentGrant | None:
        return first(await self._statements.ask(AgentGrant, _FIND_GRANT, {"organization": organization, "id": grant}))

    async def give(self, id: ConsentId, consent: Consent) -> ConsentedService | None:  # noqa: A002 - the noun's own word
        parameters = values_of(consent) | {
            "id": id,
            "scopes": None if consent.saml_entity_id is not None else list(consent.scopes),
            "saml_entity_id": None if consent.saml_entity_id is None else storable_text(consent.saml_entity_id),
            "saml_scopes": None if consent.saml_entity_id is None else list(consent.saml_scopes),
        }
        given_to = first(await self._statements.ask(ConsentedService, _GIVE, parameters))
        for resource in () if given_to is None else consent.resources:
            answer = values_of(resource) | {"allowed": list(resource.allowed), "withheld": list(resource.withheld)}
            await self._statements.tell(_GIVE_RESOURCE, parameters | answer)
        return given_to

    async def revoke(self, user: UserId, service: ServiceId) -> ApplicationAccess | None:
        parameters = {"user": user, "service": service}
        rows = await self._statements.ask(_access, _FIND, parameters)
        if not rows:
            return None
        await self._statements.tell(_TAKE_BACK, parameters)
        await self._statements.tell(_END_CODES, parameters)
        await self._statements.tell(_END_SESSIONS, parameters)
        return rows[0]

    async def revoke_resource(self, user: UserId, service: ServiceId, resource: ResourceServerId) -> ApplicationAccess | None:
        parameters = {"user": user, "service": service, "resource": resource}
        rows = await self._statements.ask(_access, _FIND, parameters)
        if not rows:
            return None
        await self._statements.tell(_TAKE_BACK_RESOURCE, parameters)
        await self._statements.tell(_END_CODES_FOR, parameters)
        await self._statements.tell(_END_SESSIONS_AT, parameters)
        return rows[0]

    async def revoke_all(self, user: UserId) -> None:
        await self._statements.tell(_END_SESSIONS_OF_ALL, {"user": user})
        await self._statements.tell(_REMOVE_ALL, {"user": user})

    async def remove_all(self, user: UserId) -> None:
        await self._statements.tell(_REMOVE_ALL, {"user": user})


# A consent for SAML has no scopes, and a consent for OpenID Connect has no entity id. A null parameter leaves the column as it is, so
# neither protocol changes the other's consent.
_GIVE: Final = """
    with given as (
             insert into consents (id, user_id, service_id, scopes, granted_at, saml_entity_id, saml_scopes)
             select %(id)s, users.id, services.id, %(scopes)s::text[], %(granted_at)s, %(saml_entity_id)s::text,
                    %(saml_scopes)s::text[]
               from services
              cross join users
              where services.id = %(service)s and users.id = %(user)s and users.deactivated_at is null
                 on conflict (user_id, service_id) do update
                set scopes = case when excluded.scopes is null then consents.scopes else coalesce(consents.scopes, '{}') || array(
                        select scope from unnest(excluded.scopes) as scope where scope <> all (coalesce(consents.scopes, '{}'))
                    ) end,
                    granted_at = excluded.granted_at,
                    saml_entity_id = coalesce(excluded.saml_entity_id, consents.saml_entity_id),
                    saml_scopes = coalesce(excluded.saml_scopes, consents.saml_scopes)
         )
  select id as service, org_id as organization, slug, name from services where id = %(service)s
"""

# What was allowed first stays allowed, unless the person has just refused it, or was asked about another document then. An answer about an
# agent stands for itself.
_GIVE_RESOURCE: Final = """
    insert into resource_consents as earlier (user_id, service_id, resource_id, identifier, scopes, withheld, granted_at, document_digest,
                                              id, expires_at)
    select user_id, service_id, %(resource)s, %(identifier)s, %(allowed)s::text[], %(withheld)s::text[], %(granted_at)s, %(document)s,
           %(id)s, %(expires_at)s
      from consents
     where user_id = %(user)s and service_id = %(service)s
        on conflict (user_id, service_id, resource_id) do update
       set scopes = array(
               select scope from unnest(earlier.scopes) as scope
                where scope <> all (excluded.withheld) and scope <> all (excluded.scopes)
                  and earlier.document_digest is not distinct from excluded.document_digest
                  and earlier.expires_at is null and excluded.expires_at is null
           ) || excluded.scopes,
           withheld = array(
               select scope from unnest(earlier.withheld) as scope
                where scope <> all (excluded.withheld) and scope <> all (excluded.scopes)
                  and earlier.document_digest is not distinct from excluded.document_digest
                  and earlier.expires_at is null and excluded.expires_at is null
           ) || excluded.withheld,
           granted_at = excluded.granted_at, document_digest = excluded.document_digest, id = excluded.id, expires_at = excluded.expires_at
"""

# Living sessions count beside consents: a device, and an application that the organization trusts, have no consent. An agent without a
# living consent can do nothing.
_RESOURCES: Final[LiteralString] = f"""
               select jsonb_agg(
                          jsonb_build_object(
                              'id', allowed.resource_id, 'identifier', allowed.identifier, 'name', coalesce(resource_servers.name, ''),
                              'expires_at', extract(epoch from allowed.expires_at),
                              'last_used_at', extract(epoch from allowed.last_used_at),
                              'scopes', array(
                                  select scope.own ->> 'description'
                                    from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                                   where scope.own ->> 'name' = any (allowed.scopes)
                                   order by scope.place
                              )
                          )
                          order by resource_servers.name, allowed.identifier
                      )
                 from (
                          select resource_id, min(identifier) as identifier, max(expires_at) as expires_at,
                                 case when services.is_agent then max(last_seen_at) end as last_used_at,
                                 array_agg(distinct scope) filter (where scope is not null) as scopes
                            from (
                                     select consents.resource_id, consents.identifier, consents.scopes, consents.expires_at,
                                            null::timestamptz as last_seen_at
                                       from resource_consents as consents
                                      where consents.user_id = %(user)s and consents.service_id = services.id and {CONSENT_LIVES}
                                      union all
                                     select given.resource_id, given.identifier,
                                            case
                                                when answer.withheld is null or {IS_BY_ASSERTION}
                                                  or trust_spares_consent(sessions.user_id, services.id)
                                                then given.scopes
                                                else array(
                                                    select scope from unnest(given.scopes) as scope where scope <> all (answer.withheld)
                                                )
                                            end,
                                            null, sessions.last_seen_at
                                       from sessions
                                      cross join lateral jsonb_to_recordset(sessions.audiences)
                                         as given (resource_id uuid, identifier text, scopes text[])
                                       left join resource_consents as answer on answer.user_id = sessions.user_id
                                            and answer.service_id = sessions.service_id and answer.resource_id = given.resource_id
                                      where sessions.user_id = %(user)s and sessions.service_id = services.id
                                        and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
                                        and {may_act("sessions")}
                                 ) as given
                            left join unnest(given.scopes) as scope on true
                           group by resource_id
                      ) as allowed
                 left join resource_servers on resource_servers.id = allowed.resource_id
"""

_ACCESS: Final[LiteralString] = f"""
    select services.id as service, services.org_id as organization, organizations.name as organization_name, services.slug,
           services.name, services.oauth_client_id as client_id, services.is_agent, services.logo_digest,
           consents.scopes, consents.granted_at, consents.saml_entity_id, coalesce(living.sessions, 0) as sessions,
           living.last_used_at,
           coalesce(({_RESOURCES}), '[]') as resources
      from (
               select sessions.service_id, count(*) filter (where sessions.exchanged_from is null) as sessions,
                      max(sessions.last_seen_at) as last_used_at
                 from sessions
                 join services on services.id = sessions.service_id
                where sessions.user_id = %(user)s and sessions.impersonator_id is null
                  and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now() and {may_act("sessions")}
                group by sessions.service_id
           ) as living
      full join (select service_id, scopes, granted_at, saml_entity_id from consents where user_id = %(user)s) as consents
             on consents.service_id = living.service_id
      join services on services.id = coalesce(living.service_id, consents.service_id)
      join organizations on organizations.id = services.org_id
"""

LIST_CONSENTS: Final[LiteralString] = f"{_ACCESS} order by organizations.name, services.name, services.id"

_FIND: Final[LiteralString] = f"{_ACCESS} where services.id = %(service)s"

_TAKE_BACK: Final = "delete from consents where user_id = %(user)s and service_id = %(service)s"

_TAKE_BACK_RESOURCE: Final = """
    delete from resource_consents where user_id = %(user)s and service_id = %(service)s and resource_id = %(resource)s
"""

_NAMES_IT: Final = "audiences @> jsonb_build_array(jsonb_build_object('resource_id', %(resource)s::text))"

_REMOVE_ALL: Final = "delete from consents where user_id = %(user)s"

_END_CODES: Final[LiteralString] = ending_codes("user_id = %(user)s and service_id = %(service)s")

_END_CODES_FOR: Final[LiteralString] = ending_codes(f"user_id = %(user)s and service_id = %(service)s and {_NAMES_IT}")

_END_SESSIONS_AT: Final[LiteralString] = revoking(
    f"user_id = %(user)s and service_id = %(service)s and impersonator_id is null and {_NAMES_IT}"
)

_END_SESSIONS: Final[LiteralString] = revoking("user_id = %(user)s and service_id = %(service)s and impersonator_id is null")

_END_SESSIONS_OF_ALL: Final[LiteralString] = revoking("""
    user_id = %(user)s and service_id in (select service_id from consents where user_id = %(user)s) and impersonator_id is null
""")

# The grants to agents that stand; `agent_consent_lives` says the same of one row.
_STANDING: Final = """
      from resource_consents as consents
      join services on services.id = consents.service_id and services.is_agent
      join organizations on organizations.id = services.org_id and organizations.agents = 'allowed'
     where services.org_id = %(organization)s and consents.id is not null and consents.expires_at > now()
       and consents.granted_at >= greatest(services.agent_since, organizations.agents_since, '-infinity')
"""

_GRANT: Final = """
           consents.id, users.id as user, users.email, services.id as service, services.oauth_client_id as client,
           services.slug as service_slug, services.name as service_name, consents.resource_id as resource, consents.identifier,
           coalesce(resource_servers.name, '') as api, consents.scopes, consents.granted_at, consents.expires_at,
           (
               select max(sessions.last_seen_at)
                 from sessions
                where sessions.user_id = consents.user_id and sessions.service_id = consents.service_id
                  and sessions.audiences @> jsonb_build_array(jsonb_build_object('resource_id', consents.resource_id::text))
           ) as last_used_at
"""
_ITS_PEOPLE: Final = """
      join users on users.id = consents.user_id
      join services on services.id = consents.service_id
      left join resource_servers on resource_servers.id = consents.resource_id
"""

# Ids grow with time, so the largest is the newest.
LIST_GRANTS: Final[LiteralString] = f"""
    with consents as materialized (
             select consents.*
                    {_STANDING}
                and (%(service)s::uuid is null or consents.service_id = %(service)s)
                and (%(user)s::uuid is null or consents.user_id = %(user)s)
                and (%(before)s::uuid is null or consents.id < %(before)s)
              order by consents.id desc
              limit %(limit)s
         )
  select {_GRANT} from consents {_ITS_PEOPLE} order by consents.id desc
"""

_FIND_GRANT: Final[LiteralString] = f"""
    with consents as materialized (select consents.* {_STANDING} and consents.id = %(id)s)
  select {_GRANT} from consents {_ITS_PEOPLE}
"""


_Asked = tuple[ServiceId, tuple[str, ...], UserId | None]


class _Offered(NamedTuple):
    id: UUID
    identifier: str
    name: str
    scopes: Sequence[Any]
    allowed: list[str] | None
    withheld: list[str] | None
    lifetime: int | None
    algorithm: str
    document: bytes | None

    def offered(self) -> OfferedResource:
        return OfferedResource(
            id=ResourceServerId(self.id),
            identifier=self.identifier,
            name=self.name,
            scopes=[OfferedScope(**scope) for scope in self.scopes],
            allowed=self.allowed,
            withheld=self.withheld or (),
            lifetime=lifetime(self.lifetime),
            algorithm=TokenAlgorithm(self.algorithm),
            document=self.document,
        )


def _offered(place: int, *columns: Any) -> tuple[int, OfferedResource]:
    return place, _Offered(*columns).offered()


class PostgresResources:
    """Implements `ports.federation.oauth.ResourceLookup`. Look-ups that arrive at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._offers = SharedLookups(self._find)

    async def find(self, service: ServiceId, identifiers: Sequence[str], user: UserId | None) -> Sequence[OfferedResource]:
        return await self._offers.find((service, tuple(identifiers), user)) or ()

    async def find_for(self, client: UnplacedClient, user: UserId | None) -> Sequence[OfferedResource]:
        parameters = {
            "organization": client.organization,
            "identifiers": [storable_text(one) for one in client.resources],
            **provenance(client.document.provenance),
            "person": user,
            "document": client.document.digest,
        }
        return [offered for _, offered in await ask_in_order(self._pool, _offered, FIND_FOR, parameters)]

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, Sequence[OfferedResource]]:
        parameters = {
            "services": array([str(service) for service, _, _ in asked]),
            "identifiers": array_of_texts([json.dumps([storable_text(one) for one in named]) for _, named, _ in asked]),
            "people": array(["null" if person is None else str(person) for _, _, person in asked]),
        }
        found: dict[_Asked, list[OfferedResource]] = {}
        for place, offered in await ask_in_order(self._pool, _offered, FIND_RESOURCES, parameters):
            found.setdefault(asked[place - 1], []).append(offered)
        return found


def scopes_for(person: LiteralString) -> LiteralString:
    """The scopes of a row of `resource_servers`, for the person, an expression of an id."""
    return f"""
           coalesce(
               (
                   select jsonb_agg(
                              jsonb_build_object(
                                  'name', scope.own ->> 'name', 'description', scope.own ->> 'description',
                                  'of_permission', scope.own ->> 'permission' is not null,
                                  'acr_values', coalesce(scope.own -> 'acr_values', '[]'), 'max_age', scope.own -> 'max_age',
                                  'is_held', {is_held("scope.own", person)}
                              )
                              order by scope.place
                          )
                     from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
               ),
               '[]'
           )
"""


FIND_RESOURCES: Final[LiteralString] = f"""
    select asked.place, resource_servers.id, resource_servers.identifier, resource_servers.name,
           {scopes_for("asked.person")} as scopes,
           consents.scopes as allowed, consents.withheld, resource_servers.token_lifetime as lifetime,
           resource_servers.access_token_alg as algorithm, services.document_digest as document
      from unnest(%(services)s::uuid[], %(identifiers)s::text[], %(people)s::uuid[])
                with ordinality as asked (service, identifiers, person, place)
      join all_services as services on services.id = asked.service and services.deleted_at is null
      join resource_servers on resource_servers.org_id = services.org_id
            and resource_servers.identifier = any (array(select jsonb_array_elements_text(asked.identifiers::jsonb)))
      left join resource_consents as consents on consents.resource_id = resource_servers.id and consents.service_id = asked.service
            and consents.user_id = asked.person and consents.document_digest is not distinct from services.document_digest
            and {CONSENT_LIVES}
     where {IS_OPEN}
       and {admits_service("asked.service")}
"""

# Nobody has allowed the client anything yet.
FIND_FOR: Final[LiteralString] = f"""
    select 1, resource_servers.id, resource_servers.identifier, resource_servers.name,
           {scopes_for("%(person)s::uuid")} as scopes,
           null::text[] as allowed, null::text[] as withheld, resource_servers.token_lifetime as lifetime,
           resource_servers.access_token_alg as algorithm, %(document)s::bytea as document
      from resource_servers
     where resource_servers.org_id = %(organization)s and resource_servers.identifier = any (%(identifiers)s::text[])
       and (resource_servers.verified_at is not null or resource_servers.approved_at is not null)
       and {IS_OPEN} and {LETS_IN}
"""
