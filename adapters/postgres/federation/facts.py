"""What a service may learn of a person besides the account, in one statement. Questions that come at once share it."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, LiteralString, NamedTuple

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.subscription_state import SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.services.rights import roles_held
from adapters.postgres.services.service_claims import CLAIM, service_claim
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask_in_order
from adapters.postgres.tenancy.teams import teams_of
from core.domain.claims import NO_FACTS, KnownField, ServiceClaim, ServiceFacts
from core.domain.identifiers import ServiceId, UserId

# The number of services with a sign-in in a busy minute.
_READ: Final = 256
# The different sets of roles that these services' people hold.
_HELD: Final = 1024


class FactsRow(NamedTuple):
    """The columns of `FACTS`, in their order."""

    organization_name: str
    role: str | None
    subscription: Mapping[str, Any] | None
    claims: str | None
    roles: str | None
    teams: Sequence[str]
    person_fields: Mapping[str, Sequence[Any]] | None
    organization_fields: Mapping[str, Sequence[Any]] | None

    def facts(self) -> ServiceFacts:
        roles, permissions = _rights(self.roles)
        subscription = subscription_state(self.subscription)
        return ServiceFacts(
            claims=_claims(self.claims),
            roles=roles,
            permissions=permissions,
            teams=self.teams,
            person_fields=_fields(self.person_fields),
            organization_fields=_fields(self.organization_fields),
            organization_name=self.organization_name,
            role=self.role or "",
            plan=subscription.plan,
            features=subscription.features,
        )


@lru_cache(maxsize=_READ)
def _claims(found: str | None) -> Sequence[ServiceClaim]:
    """The claims are the same text for each person of a service. The cache parses each text once, and again after a change."""
    return () if found is None else tuple(service_claim(one) for one in json.loads(found))


@lru_cache(maxsize=_HELD)
def _rights(found: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """The roles, and their permissions. Many people of a service hold the same roles, and their text is the same."""
    held = () if found is None else json.loads(found)
    return tuple(sorted(slug for slug, _ in held)), tuple(sorted({one for _, permissions in held for one in permissions}))


def _fields(found: Mapping[str, Sequence[Any]] | None) -> Mapping[str, KnownField]:
    return {} if found is None else {key: KnownField(*field) for key, field in found.items()}


_Asked = tuple[ServiceId, UserId]


def _placed(place: int, *columns: Any) -> tuple[int, FactsRow]:
    return place, FactsRow(*columns)


class PostgresFacts:
    """Implements `ports.identity.accounts.FactLookup`. Questions that come at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = SharedLookups(self._find, gathers=True)

    async def find(self, service: ServiceId, user: UserId) -> ServiceFacts:
        return await self._known.find((service, user)) or NO_FACTS

    async def _find(self, asked: Sequence[_Asked]) -> Mapping[_Asked, ServiceFacts]:
        parameters = {"services": array([service.hex for service, _ in asked]), "users": array([user.hex for _, user in asked])}
        return {asked[place - 1]: row.facts() for place, row in await ask_in_order(self._pool, _placed, FACTS_OF, parameters)}


def _fields_named(source: LiteralString, keeper_of_field: LiteralString, keeper_of_value: LiteralString) -> LiteralString:
    """The fields that claims of this source name, by their keys: `KnownField`. A value is kept by the id of its field, so a new field of
    the same key never tells the values of a deleted one. Several claims may name one field.
    """
    return f"""(
        select json_object_agg(
                   fields.key,
                   json_build_array(kept.values -> fields.id::text, fields.scope, 'person' = any (fields.written_by))
               )
          from service_claims
          join profile_fields as fields on fields.key = service_claims.argument #>> '{{}}' and fields.org_id {keeper_of_field}
          left join profile_values as kept on kept.user_id = users.id and kept.org_id {keeper_of_value}
         where service_claims.service_id = services.id and service_claims.source = '{source}'
    )"""


# A statement that reads `services`, its organization, `users` and the person's place in the organization can tell the facts by this. Text
# and JSON, as PostgreSQL makes them in less time than binary JSON.
FACTS: Final[LiteralString] = f"""
           organizations.name as organization_name, memberships.role,
           {SUBSCRIPTION_STATE} as subscription,
           (
               select json_agg({CLAIM} order by service_claims.name)::text
                 from service_claims
                where service_claims.service_id = services.id
           ) as claims,
           (
               select json_agg(json_build_array(held.slug, held.permissions))::text
                 from ({roles_held("users.id", "services.org_id", "services.id")}) as held
           ) as roles,
           array(
               select teams.slug
                 from ({teams_of("users.id", "services.org_id")}) as joined
                 join teams on teams.id = joined.team_id
                order by teams.slug
           ) as teams,
           {_fields_named("person_field", "is null", "is null")} as person_fields,
           {_fields_named("organization_field", "= services.org_id", "= services.org_id")} as organization_fields"""

# The statement looks into each index once for each question, as those of `adapters/postgres/tenancy/callers.py` do.
FACTS_OF: Final[LiteralString] = f"""
    select asked.place, {FACTS}
      from unnest((select %(services)s::uuid[]), (select %(users)s::uuid[])) with ordinality as asked (service, person, place)
     cross join lateral (select id, org_id from services where id = asked.service limit 1) as services
     cross join lateral (select id, name from organizations where id = services.org_id limit 1) as organizations
     cross join lateral (select id from users where id = asked.person limit 1) as users
      left join lateral (
                select role from memberships where org_id = services.org_id and user_id = users.id limit 1
           ) as memberships on true
"""
