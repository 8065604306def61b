"""Accounts of earlier releases learn who has made them, where that can be told, and whether somebody else holds them."""

from typing import Final

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import migrate, shipped

NOW: Final = "'2026-01-04T10:00:00Z'::timestamptz"
LATER: Final = "'2026-01-05T10:00:00Z'::timestamptz"

OLD: Final = f"""
    insert into organizations (id, slug, name, status, created_at, updated_at)
    select ('00000000-0000-0000-0000-00000000000' || number)::uuid, slug, slug, 'active', now(), now()
      from (values (1, 'acme'), (2, 'globex')) as new (number, slug);
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), id, 'shop', 'Shop', 'web', gen_random_uuid(), now(), now() from organizations;
    insert into users (id, email, email_key, created_at, email_verified_at)
    select gen_random_uuid(), name, name, {NOW}, {LATER}
      from unnest('{{registered,by directory,back again,by key,at a page,by provider,linked later,elsewhere,visits}}'::text[]) as name;
    update users set origin_org_id = '00000000-0000-0000-0000-000000000001' where email in ('elsewhere', 'visits');
    insert into memberships (id, org_id, user_id, role, created_at, came_by)
    select gen_random_uuid(), '00000000-0000-0000-0000-000000000001', id, 'member',
           case when email = 'by directory' then {NOW} else {LATER} end, 'created'
      from users
     where email in ('by directory', 'back again');
    insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at)
    select org_id, user_id, true, {NOW}, now() from memberships;
    update users set origin_service_id = services.id from services, organizations
     where organizations.id = services.org_id and slug_of(organizations) = 'acme' and email in ('by key', 'at a page');
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, services.org_id, case when email = 'by key' then {NOW} else {LATER} end
      from users join services on services.id = users.origin_service_id;
    insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)
    select gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 'x', 'https://x.example', 'x', 'x', '{{}}', true, now(), now();
    insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)
    select gen_random_uuid(), users.id, upstream_providers.id::text, upstream_providers.id, 'https://x.example', users.email, users.email,
           case when users.email = 'by provider' then {NOW} + interval '5 ms' else {LATER} end
      from users, upstream_providers
     where users.email in ('by provider', 'linked later');
    insert into memberships (id, org_id, user_id, role, created_at, own_since)
    select gen_random_uuid(), '00000000-0000-0000-0000-000000000002', id, 'member', now(), now() from users where email = 'elsewhere';
    insert into service_users (service_id, user_id, org_id, created_at, first_login_at)
    select services.id, users.id, services.org_id, now(), now()
      from users, services
     where users.email = 'visits' and services.org_id = '00000000-0000-0000-0000-000000000002'
""".replace("slug_of(organizations)", "organizations.slug")


async def test_accounts_of_before(empty_database_url: str) -> None:
    (here,) = [number for number, one in enumerate(shipped()) if "held_accounts" in str(one)]
    await migrate(empty_database_url, lambda _line: None, shipped()[:here])
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute(OLD.encode())
    await migrate(empty_database_url, lambda _line: None)
    async with await Connection.connect(empty_database_url) as connection:
        made = await (await connection.execute(b"select email from users where origin_org_id is not null")).fetchall()
        held = await (await connection.execute(b"select email from held_accounts join users on users.id = user_id")).fetchall()
    assert {name for (name,) in made} == {"by directory", "by key", "by provider", "elsewhere", "visits"}
    assert {name for (name,) in held} == {"elsewhere", "visits"}
