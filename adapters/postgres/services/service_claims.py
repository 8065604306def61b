"""The claims that services have configured, in PostgreSQL. The column `told_in` has the places of `into`, which is a word of SQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.rows import AnswerRow, CountRow, IdRow
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.identifiers import OrganizationId, ServiceClaimId, ServiceId
from core.domain.services.service_claims import ConfiguredClaim
from core.frozen import Frozen

# A row of `service_claims` as JSON, for statements that read all claims of a service at once.
CLAIM: Final = """
                   json_build_object(
                       'name', service_claims.name, 'source', service_claims.source, 'argument', service_claims.argument,
                       'into', service_claims.told_in
                   )"""


def service_claim(row: Mapping[str, Any]) -> ServiceClaim:
    """Reads `CLAIM`."""
    return ServiceClaim(row["name"], ClaimSource(row["source"]), row["argument"], tuple(map(ClaimPlace, row["into"])))


class _Claim(Frozen, kw_only=True):
    """For a service without claims, the list has one row of nulls."""

    service_id: UUID
    id: UUID | None
    created_at: datetime | None
    claim: Mapping[str, Any]
    person_writes: bool | None = None

    def configured(self) -> ConfiguredClaim | None:
        if self.id is None or self.created_at is None:
            return None
        return ConfiguredClaim(
            ServiceClaimId(self.id), ServiceId(self.service_id), service_claim(self.claim), self.created_at, self.person_writes
        )


class ServiceClaimRows(OnStatements):
    """Implements `ports.services.services.ServiceClaimStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ConfiguredClaim] | None:
        rows = await self._statements.ask(_Claim, _LIST, {"organization": organization, "slug": storable_text(service_slug)})
        return [claim for row in rows if (claim := row.configured()) is not None] if rows else None

    async def find(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        return first_made(await self._statements.ask(_Claim, _GET, {"service": service, "id": claim}), _Claim.configured)

    async def count(self, service: ServiceId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"service": service})).count

    async def add(self, claim: ConfiguredClaim) -> bool:
        return bool(await self._statements.ask(IdRow, _ADD, _columns(claim)))

    async def save(self, claim: ConfiguredClaim) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, _columns(claim)))

    async def is_made_of(self, organization: OrganizationId, field: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_MADE_OF, {"organization": organization, "field": storable_text(field)})).yes

    async def delete(self, service: ServiceId, claim: ServiceClaimId) -> ConfiguredClaim | None:
        return first_made(await self._statements.ask(_Claim, _DELETE, {"service": service, "id": claim}), _Claim.configured)


def _columns(configured: ConfiguredClaim) -> Mapping[str, Any]:
    claim = configured.claim
    return {
        "id": configured.id,
        "service": configured.service,
        "name": claim.name,
        "source": claim.source.value,
        "argument": None if claim.argument is None else Jsonb(storable(claim.argument)),
        "told_in": [place.value for place in claim.into],
        "created_at": configured.created_at,
    }


_COLUMNS: Final[LiteralString] = f"""
           service_claims.service_id, service_claims.id, service_claims.created_at, {CLAIM} as claim"""

_OF_FIELD: Final[LiteralString] = """
           (
               select 'person' = any (fields.written_by)
                 from profile_fields as fields
                where fields.key = service_claims.argument #>> '{}'
                  and case service_claims.source
                          when 'person_field' then fields.org_id is null
                          when 'organization_field' then fields.org_id = services.org_id
                          else false
                      end
           ) as person_writes"""

_LIST: Final[LiteralString] = f"""
    select services.id as service_id, service_claims.id, service_claims.created_at, {CLAIM} as claim, {_OF_FIELD}
      from services
      left join service_claims on service_claims.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by service_claims.name, service_claims.id
"""

_GET: Final[LiteralString] = f"""
    select {_COLUMNS}, {_OF_FIELD}
      from service_claims
      join services on services.id = service_claims.service_id
     where service_claims.service_id = %(service)s and service_claims.id = %(id)s
"""

_COUNT: Final = "select count(*) as count from service_claims where service_id = %(service)s"

_ADD: Final = """
    insert into service_claims (id, service_id, name, source, argument, told_in, created_at)
    values (%(id)s, %(service)s, %(name)s, %(source)s, %(argument)s, %(told_in)s, %(created_at)s)
        on conflict (service_id, name) do nothing
 returning id
"""

# The caller holds the service, so no other claim takes the name meanwhile.
_SAVE: Final = """
    update service_claims
       set name = %(name)s, source = %(source)s, argument = %(argument)s, told_in = %(told_in)s
     where id = %(id)s and service_id = %(service)s
       and not exists (
               select from service_claims as others where others.service_id = %(service)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

_IS_MADE_OF: Final = """
    select exists (
               select
                 from service_claims
                 join services on services.id = service_claims.service_id
                where services.org_id = %(organization)s and service_claims.source = 'organization_field'
                  and service_claims.argument #>> '{}' = %(field)s
           ) as yes
"""

_DELETE: Final[LiteralString] = f"delete from service_claims where id = %(id)s and service_id = %(service)s returning {_COLUMNS}"
