"""The APIs that requests name, in PostgreSQL, and what people allow applications there."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.arrays import array, array_of_texts
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.client_documents import LETS_IN, provenance
from adapters.postgres.identity.sessions.agents import CONSENT_LIVES
from adapters.postgres.identity.sessions.audiences import IS_OPEN, admits_service, is_held, lifetime
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask_in_order
from adapters.postgres.storable import storable_text
from core.domain.federation.oauth.consents import UnplacedClient
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.tokens import TokenAlgorithm

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
        for place, offered in await ask_in_order(self._pool, _offered, FIND, parameters):
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


FIND: Final[LiteralString] = f"""
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
