"""Two organizations that have something of everything, and what is left of them."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from core.domain.identifiers import OrganizationId
from tests.adapters.postgres.conftest import Store

ACME: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000a"))
OTHER: Final = OrganizationId(UUID("01900000-0000-7000-8000-00000000000b"))
MEMBERS: Final = 60
# The log of what happened outlives the organization that it is about.
KEPT: Final = frozenset({"audit_entries", "audit_links", "audit_pending"})

# For each of the two organizations: of everything that there is.
_FILL: Final = """
    insert into all_organizations (id, slug, name, status, created_at, updated_at)
    values (%(organization)s, %(slug)s, 'Acme', 'active', now(), now());
    insert into roles (id, org_id, slug, name, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'role-' || n, 'Role', now(), now() from generate_series(1, 10) as n;
    insert into relations (organization_id, role_id, relation, object_type, object_id)
    select %(organization)s, id, 'org.members.view', 'organization', %(organization)s from roles where org_id = %(organization)s;
    insert into memberships (id, org_id, user_id, role, role_id, created_at)
    select gen_random_uuid(), %(organization)s, users.id, coalesce(roles.slug, 'member'), roles.id, now()
      from (select id, row_number() over (order by id) as n from users) as users
      left join (select id, slug, row_number() over (order by id) as n from roles where org_id = %(organization)s) as roles using (n);
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, case when role_id is null then 'member' else 'holder' end,
           case when role_id is null then 'organization' else 'role' end, coalesce(role_id, org_id)
      from memberships where org_id = %(organization)s;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'service-' || n, 'Service', 'web', gen_random_uuid(), now(), now()
      from generate_series(1, 3) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, org_id, now() from services cross join users where org_id = %(organization)s;
    insert into sessions (id, user_id, organization_id, service_slug, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), users.id, %(organization)s, place.slug, now(), now(), now() + interval '1 day'
      from users cross join (values (null), ('service-1')) as place (slug);
    insert into refresh_tokens (digest, session_id, created_at)
    select sha256(id::text::bytea), id, now() from sessions where organization_id = %(organization)s;
    insert into preauthentications (id, user_id, organization_id, created_at, expires_at)
    select gen_random_uuid(), id, %(organization)s, now(), now() from users limit 20;
    insert into invitations (id, org_id, email, email_key, role, role_id, token_digest, expires_at, created_at)
    select gen_random_uuid(), org_id, 'i' || slug, 'i' || slug, slug, id, sha256(id::text::bytea), now(), now()
      from roles where org_id = %(organization)s;
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    select gen_random_uuid(), 'thing.done', %(organization)s, 'user', id::text, '{}', now() from users;
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select gen_random_uuid(), id, %(organization)s, gen_random_uuid(), 'password', true, now() from users;
    insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), %(organization)s, id, 'thing.done', 'user', id::text, true, '{}', now() from users;
    insert into audit_personal (entry_id, actor_id, address, details, salt)
    select id, actor_id, '192.0.2.1', '{"email": "ada@example.org"}', '' from audit_entries where organization_id = %(organization)s;
    insert into audit_pending (entry_id, chain_id) select id, %(organization)s from audit_entries where organization_id = %(organization)s
"""


async def fill(store: Store) -> None:
    await store.query(
        "insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, %(members)s) as n",
        {"members": MEMBERS},
    )
    for organization, slug in ((ACME, "acme"), (OTHER, "other")):
        for statement in _FILL.split(";"):
            await store.query(statement, {"organization": organization, "slug": slug})


async def tables(store: Store) -> Mapping[str, str]:
    """Every table whose rows are an organization's, and the column that says so; later ones too."""
    rows = await store.query(
        "select c.table_name, c.column_name from information_schema.columns as c"
        "  join information_schema.tables as t using (table_schema, table_name)"
        " where c.table_schema = 'public' and t.table_type = 'BASE TABLE' and c.column_name in ('org_id', 'organization_id', 'chain_id')"
    )
    return {row["table_name"]: row["column_name"] for row in rows}


async def counted(store: Store, organization: OrganizationId) -> Mapping[str, int]:
    found = {}
    for table, column in (await tables(store)).items():
        (row,) = await store.query(f"select count(*) as n from {table} where {column} = %(organization)s", {"organization": organization})
        found[table] = row["n"]
    return found


async def everything_of(store: Store, organization: OrganizationId) -> Mapping[str, list[Any]]:
    """Row by row, as text."""
    found = {}
    for table, column in {**await tables(store), "all_organizations": "id"}.items():
        rows = await store.query(
            f"select t::text as row from {table} as t where {column} = %(organization)s order by 1", {"organization": organization}
        )
        found[table] = [row["row"] for row in rows]
    return found


async def left_of(store: Store, organization: OrganizationId) -> int:
    """All that must not be left of an organization that is deleted."""
    return sum(rows for table, rows in (await counted(store, organization)).items() if table not in KEPT)
