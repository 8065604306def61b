"""Relations in PostgreSQL: which person has which relation to which object. Every check of access reads these rows and no others."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.identity.terms.terms import pending_terms
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.teams import teams_of
from adapters.postgres.transaction import OnPool
from core.domain.mail import Email
from core.domain.tenancy.organizations import Accessor, OrganizationStatus, Related
from core.frozen import Frozen

# A part of statements that read `users` and an organization as `wanted`. The part finds all relations of the person to the organization:
# the person's own relations, those of the person's teams (`by_team`), and the relations that a role gives the person (`by_role`). The
# relation `holder` to a role permits nothing by itself; the role's own relations say what its holders may do. Finding all of them takes
# three look-ups in an index, whatever the number of organizations, members or teams, and one more for each team of the person.
RELATED: Final[LiteralString] = f"""
               select related.relation, related.by_role, held.by_team
                 from (
                          select relation, object_type, object_id, null::uuid as by_team
                            from relations
                           where user_id = users.id and organization_id = wanted.id
                             and (object_id = wanted.id or object_type = 'role')
                           union all
                          select relations.relation, relations.object_type, relations.object_id, relations.team_id
                            from ({teams_of("users.id", "wanted.id")}) as joined
                            join relations on relations.team_id = joined.team_id and relations.organization_id = wanted.id
                             and (relations.object_id = wanted.id or relations.object_type = 'role')
                      ) as held
                cross join lateral (
                          select held.relation, case held.object_type when 'role' then held.object_id end as by_role
                           union all
                          select given.relation, given.role_id
                            from relations as given
                           where given.role_id = held.object_id and given.object_id = wanted.id
                             and held.object_type = 'role' and held.relation = 'holder'
                      ) as related
"""

# `RELATED` without the relations that the organization's directory gives by its teams.
RELATED_BESIDES_DIRECTORY: Final[LiteralString] = f"""
               select related.relation, related.by_role, related.by_team
                 from ({RELATED}) as related
                where not exists (select from teams where teams.id = related.by_team and teams.source = 'directory')
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
    by_team: str | None
    second_factor_due: datetime | None
    owes_second_factor: bool
    terms: Sequence[Mapping[str, Any]] | None


class PostgresRelations(OnPool):
    """Implements `ports.tenancy.members.RelationLookup`."""

    async def find(self, email: Email, slug: str) -> Accessor | None:
        rows = await ask(self._pool, _Standing, _EXPLAIN, {"email_key": email.key, "slug": storable_text(slug)})
        if not rows:
            return None
        first = rows[0]
        related = [Related(row.relation, row.by_role or "", row.by_team or "") for row in rows if row.relation is not None]
        return Accessor(
            Email(first.email),
            first.deactivated_at is None,
            first.slug,
            OrganizationStatus(first.status),
            first.role or "",
            related,
            first.second_factor_due,
            first.owes_second_factor,
            # Those of other organizations do not keep the person out of this one.
            [one for one in pending_terms(first.terms) if one.organization_slug in {"", first.slug}],
        )


_EXPLAIN: Final[LiteralString] = f"""
    select users.email, users.deactivated_at, wanted.slug, wanted.status, memberships.role, related.relation, roles.slug as by_role,
           teams.slug as by_team, rule.due as second_factor_due, {grace_is_over("rule.due")} as owes_second_factor,
           terms_pending(users.id, wanted.id) as terms
      from users
      join organizations as wanted on wanted.slug = %(slug)s
      left join memberships on memberships.org_id = wanted.id and memberships.user_id = users.id
      left join lateral ({RELATED}) as related on true
      left join roles on roles.id = related.by_role
      left join teams on teams.id = related.by_team
      left join lateral (select {second_factor_due_in("wanted.id", "users.id")} as due) as rule on true
     where users.email_key = %(email_key)s
     order by teams.slug nulls first, roles.slug nulls first, related.relation <> 'holder', related.relation
"""
