"""The APIs that requests name, in PostgreSQL, and what people allow applications there."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.agents import CONSENT_LIVES
from adapters.postgres.identity.sessions.audiences import IS_OPEN, admits_service, is_held, lifetime
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope
from core.domain.identifiers import ResourceServerId, ServiceId, UserId
from core.domain.signing_keys import TokenAlgorithm
from core.frozen import Frozen


class _Offered(Frozen):
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


class PostgresResources:
    """Implements `ports.federation.resources.ResourceLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, service: ServiceId, identifiers: Sequence[str], user: UserId | None) -> Sequence[OfferedResource]:
        parameters = {"service": service, "identifiers": [storable_text(one) for one in identifiers], "user": user}
        return [row.offered() for row in await ask(self._pool, _Offered, FIND, parameters)]


# The scopes of a row of `resource_servers`, for the person `user`.
SCOPES_FOR: Final[LiteralString] = f"""
           coalesce(
               (
                   select jsonb_agg(
                              jsonb_build_object(
                                  'name', scope.own ->> 'name', 'description', scope.own ->> 'description',
                                  'of_permission', scope.own ->> 'permission' is not null,
                                  'acr_values', coalesce(scope.own -> 'acr_values', '[]'), 'max_age', scope.own -> 'max_age',
                                  'is_held', {is_held("scope.own", "%(user)s::uuid")}
                              )
                              order by scope.place
                          )
                     from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
               ),
               '[]'
           )
"""

FIND: Final[LiteralString] = f"""
    select resource_servers.id, resource_servers.identifier, resource_servers.name,
           {SCOPES_FOR} as scopes,
           consents.scopes as allowed, consents.withheld, resource_servers.token_lifetime as lifetime,
           resource_servers.access_token_alg as algorithm, services.document_digest as document
      from resource_servers
      join all_services as services on services.id = %(service)s and services.org_id = resource_servers.org_id
       and services.deleted_at is null
      left join resource_consents as consents on consents.resource_id = resource_servers.id and consents.service_id = services.id
            and consents.user_id = %(user)s::uuid and consents.document_digest is not distinct from services.document_digest
            and {CONSENT_LIVES}
     where resource_servers.identifier = any (%(identifiers)s::text[])
       and {IS_OPEN}
       and {admits_service("%(service)s")}
"""
