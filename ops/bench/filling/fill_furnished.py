"""Gives organizations fields and teams, services roles and claims, and members a part in these. PostgreSQL makes the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

CLAIMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "department": ("organization_field", "field_1"),
    "cost_center": ("organization_field", "field_2"),
    "location": ("organization_field", "field_3"),
    "badge": ("person_field", "badge"),
    "floor": ("person_field", "floor"),
    "app_roles": ("roles", None),
    "app_permissions": ("permissions", None),
    "app_teams": ("teams", None),
    "tenant": ("organization", "name"),
    "edition": ("constant", "enterprise"),
}


@dataclass(frozen=True, slots=True)
class Furniture:
    """What an organization has. Everybody is in `teams_each` of the teams, and holds all roles: by a team, by the membership, or alone."""

    fields: int
    teams: int
    teams_each: int
    roles: int
    claims: Mapping[str, tuple[str, str | None]]


FULL: Final = Furniture(fields=10, teams=20, teams_each=5, roles=10, claims=CLAIMS)
SMALL: Final = Furniture(fields=3, teams=3, teams_each=1, roles=0, claims={})


def furnish(connection: psycopg.Connection[Any], slugs: str, furniture: Furniture) -> None:
    """Gives all organizations with such slugs fields, teams, roles and claims of their services, and their members their part in these."""
    parameters = {
        "slugs": slugs,
        "fields": furniture.fields,
        "teams": furniture.teams,
        "teams_each": furniture.teams_each,
        "step": furniture.teams // furniture.teams_each,
        "roles": furniture.roles,
        "claims": list(furniture.claims),
        "sources": [source for source, _ in furniture.claims.values()],
        "arguments": [argument for _, argument in furniture.claims.values()],
    }
    with connection.transaction():
        for statement in _FURNISH:
            connection.execute(statement, parameters)


_FURNISH: Final[Sequence[LiteralString]] = (
    """
    create temporary table houses on commit drop as
    select organizations.id as organization, services.id as service
      from organizations
      join services on services.org_id = organizations.id
     where organizations.slug like %(slugs)s
    """,
    """
    create temporary table inhabitants on commit drop as
    select houses.organization, houses.service, memberships.user_id as person,
           row_number() over (partition by houses.organization order by memberships.user_id) as number
      from houses
      join memberships on memberships.org_id = houses.organization
    """,
    """
    insert into all_profile_fields (id, key, label, kind, written_by, scope, created_at, updated_at)
    select gen_random_uuid(), key, key, 'text', '{administrator}', 'email', now(), now() from unnest('{badge,floor}'::text[]) as key
        on conflict do nothing
    """,
    """
    insert into all_profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)
    select gen_random_uuid(), organization, 'field_' || number, 'Field ' || number, 'text', '{administrator}', now(), now()
      from houses
     cross join generate_series(1, %(fields)s) as number
    """,
    "analyze all_profile_fields, houses, inhabitants",
    """
    insert into profile_values (user_id, org_id, values, updated_at)
    select inhabitants.person, inhabitants.organization, told.values, now()
      from inhabitants
      join (
               select org_id, jsonb_object_agg(id::text, 'Value of ' || key) as values from all_profile_fields group by org_id
           ) as told on told.org_id = inhabitants.organization
    """,
    """
    insert into profile_values (user_id, values, updated_at)
    select distinct inhabitants.person, told.values, now()
      from inhabitants
     cross join (select jsonb_object_agg(id::text, 'Value of ' || key) as values from all_profile_fields where org_id is null) as told
        on conflict do nothing
    """,
    """
    create temporary table grown_teams on commit drop as
    select gen_random_uuid() as id, houses.organization, houses.service, number
      from houses
     cross join generate_series(0, %(teams)s - 1) as number
    """,
    """
    insert into teams (id, org_id, slug, name, created_at, updated_at)
    select id, organization, 'team-' || number, 'Team ' || number, now(), now() from grown_teams
    """,
    "analyze grown_teams",
    """
    insert into team_members (team_id, org_id, user_id, added_at)
    select grown_teams.id, inhabitants.organization, inhabitants.person, now()
      from inhabitants
     cross join generate_series(0, %(teams_each)s - 1) as place
      join grown_teams
        on grown_teams.organization = inhabitants.organization
       and grown_teams.number = (inhabitants.number + place * %(step)s) %% %(teams)s
    """,
    """
    insert into service_roles (id, org_id, service_id, slug, name, permissions, created_at, updated_at)
    select gen_random_uuid(), organization, service, 'role-' || number, 'Role ' || number,
           array(select 'area' || number || ':action' || action from generate_series(1, 5) as action), now(), now()
      from houses
     cross join generate_series(0, %(roles)s - 1) as number
    """,
    """
    insert into permissions (id, service_id, key, created_at)
    select gen_random_uuid(), service_roles.service_id, unnest(service_roles.permissions), now()
      from service_roles
      join houses on houses.service = service_roles.service_id
    """,
    """
    create temporary table grown_roles on commit drop as
    select service_roles.id, houses.organization, houses.service, substr(service_roles.slug, 6)::integer as number
      from service_roles
      join houses on houses.service = service_roles.service_id
    """,
    """
    insert into relations (organization_id, built_in_role, relation, object_type, object_id, id, service_id, created_at)
    select organization, role, 'holder', 'service_role', id, gen_random_uuid(), service, now()
      from grown_roles
     cross join unnest('{owner,member}'::text[]) as role
     where number %% 3 = 0
    """,
    """
    insert into relations (organization_id, team_id, relation, object_type, object_id, id, service_id, created_at)
    select grown_roles.organization, grown_teams.id, 'holder', 'service_role', grown_roles.id, gen_random_uuid(), grown_roles.service, now()
      from grown_roles
      join grown_teams on grown_teams.organization = grown_roles.organization and grown_teams.number < %(step)s
     where grown_roles.number %% 3 = 1
    """,
    """
    insert into relations (organization_id, user_id, relation, object_type, object_id, id, service_id, created_at)
    select grown_roles.organization, inhabitants.person, 'holder', 'service_role', grown_roles.id, gen_random_uuid(), grown_roles.service,
           now()
      from grown_roles
      join inhabitants on inhabitants.organization = grown_roles.organization
     where grown_roles.number %% 3 = 2
    """,
    """
    insert into service_claims (id, service_id, name, source, argument, told_in, created_at)
    select gen_random_uuid(), houses.service, told.name, told.source, to_jsonb(told.argument), '{id_token,userinfo}', now()
      from houses
     cross join unnest(%(claims)s::text[], %(sources)s::text[], %(arguments)s::text[]) as told (name, source, argument)
    """,
)
