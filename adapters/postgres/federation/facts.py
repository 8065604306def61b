"""What a service may learn of a person besides the account, in one statement."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.subscription_state import SUBSCRIPTION_STATE, subscription_state
from adapters.postgres.services.rights import roles_held
from adapters.postgres.services.service_claims import CLAIM, service_claim
from adapters.postgres.statements import ask
from adapters.postgres.tenancy.teams import teams_of
from core.domain.claims import NO_FACTS, KnownField, ServiceClaim, ServiceFacts
from core.domain.identifiers import ServiceId, UserId
from core.frozen import Frozen

# The number of services with a sign-in in a busy minute.
_READ: Final = 256


class FactsRow(Frozen):
    organization_name: str
    role: str | None
    subscription: Mapping[str, Any] | None
    claims: str | None
    roles: Sequence[Mapping[str, Any]] | None
    teams: Sequence[str]
    person_fields: Mapping[str, Any] | None
    organization_fields: Mapping[str, Any] | None

    def facts(self) -> ServiceFacts:
        held, subscription = self.roles or (), subscription_state(self.subscription)
        return ServiceFacts(
            claims=_claims(self.claims),
            roles=sorted(one["slug"] for one in held),
            permissions=sorted({permission for one in held for permission in one["permissions"]}),
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


def _fields(found: Mapping[str, Any] | None) -> Mapping[str, KnownField]:
    return {key: KnownField(one["value"], one["scope"], one["by_person"]) for key, one in (found or {}).items()}


class PostgresFacts:
    """Implements `ports.identity.facts.FactLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, service: ServiceId, user: UserId) -> ServiceFacts:
        rows = await ask(self._pool, FactsRow, FACTS_OF, {"service": service, "user": user})
        return rows[0].facts() if rows else NO_FACTS


def _fields_named(source: LiteralString, keeper_of_field: LiteralString, keeper_of_value: LiteralString) -> LiteralString:
    """The fields that claims of this source name, by their keys. A value is kept by the id of its field, so a new field of the same key
    never tells the values of a deleted one.
    """
    return f"""(
        select jsonb_object_agg(
                   fields.key,
                   jsonb_build_object(
                       'value', kept.values -> fields.id::text, 'scope', fields.scope, 'by_person', 'person' = any (fields.written_by)
                   )
               )
          from (
                   select distinct service_claims.argument #>> '{{}}' as key
                     from service_claims
                    where service_claims.service_id = services.id and service_claims.source = '{source}'
               ) as named
          join profile_fields as fields on fields.key = named.key and fields.org_id {keeper_of_field}
          left join profile_values as kept on kept.user_id = users.id and kept.org_id {keeper_of_value}
    )"""


# A statement that reads `services`, its organization, `users` and the person's place in the organization can tell the facts by this.
FACTS: Final[LiteralString] = f"""
           organizations.name as organization_name, memberships.role,
           {SUBSCRIPTION_STATE} as subscription,
           (
               select jsonb_agg({CLAIM} order by service_claims.name)::text
                 from service_claims
                where service_claims.service_id = services.id
           ) as claims,
           (
               select jsonb_agg(jsonb_build_object('slug', held.slug, 'permissions', held.permissions))
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

FACTS_OF: Final[LiteralString] = f"""
    select {FACTS}
      from services
      join organizations on organizations.id = services.org_id
     cross join users
      left join memberships on memberships.org_id = services.org_id and memberships.user_id = users.id
     where services.id = %(service)s and users.id = %(user)s
"""
