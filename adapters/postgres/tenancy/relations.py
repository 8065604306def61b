"""Relations in PostgreSQL: which person has which relation to which object. Every check of access reads these rows and no others."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from core.domain.email import Email
from core.domain.tenancy.access import Accessor, Related
from core.domain.tenancy.organizations import OrganizationStatus
from core.frozen import Frozen

# A part of statements that read `users` and an organization as `wanted`. The part finds all relations of the person to the organization:
# the person's own relations, and the relations that a role gives the person (`by_role`). The relation `holder` to a role permits nothing by
# itself; the role's own relations say what its holders may do. Finding all of them takes two look-ups in an index, whatever the number of
# organizations or members.
RELATED: Final = """
               select held.relation, case held.object_type when 'role' then held.object_id end as by_role
                 from relations as held
                where held.user_id = users.id and held.organization_id = wanted.id
                  and (held.object_id = wanted.id or held.object_type = 'role')
                union all
               select given.relation, given.role_id
                 from relations as held
                 join relations as given on given.role_id = held.object_id and given.object_id = wanted.id
                where held.user_id = users.id and held.organization_id = wanted.id
                  and held.object_type = 'role' and held.relation = 'holder'
"""

# The names of the relations that `RELATED` finds, as an array.
RELATIONS_OF_MEMBER: Final[LiteralString] = f"array(select relation from ({RELATED}) as related)"


class _Standing(Frozen):
    email: str
    deactivated_at: datetime | None
    slug: str
    status: str
    role: str | None
    relation: str | None
    by_role: str | None
    second_factor_due: datetime | None
    owes_second_factor: bool


class PostgresRelations:
    """Implements `ports.tenancy.relations.RelationLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, email: Email, slug: str) -> Accessor | None:
        rows = await ask(self._pool, _Standing, _EXPLAIN, {"email_key": email.key, "slug": storable_text(slug)})
        if not rows:
            return None
        first = rows[0]
        related = [Related(row.relation, row.by_role or "") for row in rows if row.relation is not None]
        return Accessor(
            Email(first.email),
            first.deactivated_at is None,
            first.slug,
            OrganizationStatus(first.status),
            first.role or "",
            related,
            first.second_factor_due,
            first.owes_second_factor,
        )


_EXPLAIN: Final[LiteralString] = f"""
    select users.email, users.deactivated_at, wanted.slug, wanted.status, memberships.role, related.relation, roles.slug as by_role,
           rule.due as second_factor_due, {grace_is_over("rule.due")} as owes_second_factor
      from users
      join organizations as wanted on wanted.slug = %(slug)s
      left join memberships on memberships.org_id = wanted.id and memberships.user_id = users.id
      left join lateral ({RELATED}) as related on true
      left join roles on roles.id = related.by_role
      left join lateral (select {second_factor_due_in("wanted.id", "users.id")} as due) as rule on true
     where users.email_key = %(email_key)s
     order by roles.slug nulls first, related.relation <> 'holder', related.relation
"""
