"""Two services of one organization that have something of everything, and what is left of them."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from tests.adapters.postgres.conftest import Store

ACME: Final = UUID("01900000-0000-7000-8000-00000000000a")
SHOP: Final = UUID("01900000-0000-7000-8000-0000000000a1")
APP: Final = UUID("01900000-0000-7000-8000-0000000000a2")
USERS: Final = 60
PLANS: Final = 3

# For each of the two services: of everything that there is.
_FILL: Final = """
    insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    values (%(service)s, %(organization)s, %(slug)s, 'Service', 'web', gen_random_uuid(), now(), now());
    insert into service_users (service_id, user_id, org_id, created_at)
    select %(service)s, id, %(organization)s, now() from users;
    update users set origin_service_id = %(service)s where id in (select id from users where origin_service_id is null limit 25);
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), id, %(organization)s, %(service)s, now(), now(), now() + interval '1 day' from users;
    insert into refresh_tokens (digest, session_id, created_at)
    select sha256(id::text::bytea), id, now() from sessions where service_id = %(service)s;
    insert into preauthentications (id, user_id, organization_id, service_id, created_at, expires_at)
    select gen_random_uuid(), id, %(organization)s, %(service)s, now(), now() from users limit 20;
    insert into awaited_sign_ins (id, user_id, session_id, service_id, began_at, ends_at)
    select gen_random_uuid(), sessions.user_id, sessions.id, %(service)s, now(), now()
      from sessions
     where sessions.service_id is null and not exists (select from awaited_sign_ins where user_id = sessions.user_id)
     limit 20;
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at, deleted_at)
    select gen_random_uuid(), %(service)s, 'Plan ' || n, n, 'usd', now(), now(), case n when 2 then now() end
      from generate_series(1, 3) as n;
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), %(service)s, users.id, plans.id, case plans.price_cents when 1 then 'active' else 'expired' end, now(),
           now(), now()
      from users cross join plans where plans.service_id = %(service)s;
    insert into billing_checkouts (service_id, user_id, id, digest, asked_at)
    select service_id, user_id, gen_random_uuid(), '', now() from service_users where service_id = %(service)s;
    insert into billing_subscriptions (external_id, org_id, service_id, user_id, plan_id, subscription_id, facets, created_at, updated_at)
    select 'sub_' || subscriptions.id, services.org_id, service_id, user_id, plan_id, subscriptions.id, '{}', now(), now()
      from subscriptions join all_services as services on services.id = subscriptions.service_id where service_id = %(service)s;
    insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)
    select gen_random_uuid(), %(service)s, 'Key', %(slug)s || n, sha256((%(slug)s || n)::bytea), '{read:users}', gen_random_uuid(), now()
      from generate_series(1, 20) as n;
    insert into proxies (service_id, rules, headers, updated_at) values (%(service)s, '{}', '{}', now());
    insert into proxy_hosts (host, service_id) values (%(slug)s || '.example', %(service)s);
    insert into service_logos (id, service_id, digest, media_type, content, created_at)
    values (gen_random_uuid(), %(service)s, 'd', 'image/png', '', now());
    insert into user_key_settings (service_id, enabled, prefix, most_keys, updated_at) values (%(service)s, true, 'key', 10, now());
    insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)
    select made.id, made.service_id, made.user_id, 'Key', made.id, sha256(made.id::text::bytea), '{}', now()
      from (select gen_random_uuid() as id, service_id, user_id from service_users where service_id = %(service)s) as made;
    insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, token, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'https://api.example/' || %(slug)s || n, 'api.example', 'API', %(service)s, 'named', 't',
           now(), now()
      from generate_series(1, 20) as n;
    insert into resource_admissions (id, resource_id, service_id)
    select gen_random_uuid(), id, %(service)s from resource_servers where service_id = %(service)s;
    insert into resource_exchanges (id, resource_id, service_id)
    select gen_random_uuid(), id, %(service)s from resource_servers where service_id = %(service)s;
    insert into trusted_issuers (id, org_id, service_id, name, issuer, audience, jwks_uri, subject_pattern, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, %(service)s, %(slug)s || n, 'https://ci.example', 'a', 'https://ci.example/', 'a:b',
           now(), now()
      from generate_series(1, 10) as n;
    insert into permissions (id, service_id, key, created_at)
    select gen_random_uuid(), %(service)s, 'p' || n, now() from generate_series(1, 20) as n;
    insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, %(service)s, 'r' || n, 'R', now(), now() from generate_series(1, 20) as n;
    insert into former_slugs (org_id, service_id, noun, slug)
    select %(organization)s, %(service)s, 'permission', 'f' || n from generate_series(1, 5) as n;
    insert into relations (organization_id, user_id, relation, object_type, object_id, id, service_id, created_at)
    select %(organization)s, users.id, 'holder', 'service_role', roles.id, gen_random_uuid(), %(service)s, now()
      from users cross join (select id from service_roles where service_id = %(service)s limit 1) as roles;
    insert into saml_certificates (id, service_id, state, certificate, sealed_private_key, valid_from, valid_until, created_at)
    values (gen_random_uuid(), %(service)s, 'active', '', '', now(), now(), now());
    insert into saml_requests (id, service_id, digest, expires_at)
    select gen_random_uuid(), %(service)s, sha256(n::text::bytea), now() from generate_series(1, 20) as n;
    insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, created_at)
    select gen_random_uuid(), id, %(service)s, 'ada@example.org', '', now() from sessions where service_id is null limit 20;
    insert into authorization_refusals (id, service_id, place, reason, received, expected, occurred_at)
    select gen_random_uuid(), %(service)s, '', '', '', '', now() from generate_series(1, 20) as n;
    insert into saml_exchanges (id, service_id, kind, binding, succeeded, status, reason, advice, message_id, in_response_to, created_at)
    select gen_random_uuid(), %(service)s, '', '', true, '', '', '', '', '', now() from generate_series(1, 20) as n;
    insert into saml_configurations (service_id, enabled, created_at, updated_at) values (%(service)s, false, now(), now());
    insert into service_claims (id, service_id, name, source, told_in, created_at)
    select gen_random_uuid(), %(service)s, 'claim-' || n, 'plan', '{id_token}', now() from generate_series(1, 20) as n;
    insert into client_secrets (id, service_id, prefix, digest, created_at)
    select gen_random_uuid(), %(service)s, 'cs_' || n, sha256((%(slug)s || n)::bytea), now() from generate_series(1, 2) as n;
    insert into authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, scopes, auth_time, authenticated_by,
                                     created_at, expires_at)
    select gen_random_uuid(), sha256((id::text || %(slug)s)::bytea), %(service)s, user_id, id, 'https://a.example/', '{openid}', now(),
           '{pwd}', now(), now()
      from sessions where service_id is null limit 20;
    insert into device_codes (id, digest, user_code_hmac, service_id, scopes, created_at, expires_at, poll_interval)
    select gen_random_uuid(), sha256((%(slug)s || n)::bytea), sha256((%(slug)s || n)::bytea), %(service)s, '{openid}', now(), now(), 5
      from generate_series(1, 20) as n;
    insert into client_assertions (id, service_id, digest, expires_at)
    select gen_random_uuid(), %(service)s, sha256(n::text::bytea), now() from generate_series(1, 20) as n;
    insert into afar_requests (id, digest, service_id, scopes, foreign_scopes, created_at, expires_at, poll_interval)
    select gen_random_uuid(), sha256(('afar' || %(slug)s || n)::bytea), %(service)s, '{openid}', '{}', now(), now(), 5
      from generate_series(1, 20) as n;
    insert into afar_blocks (user_id, service_id, blocked_at) select id, %(service)s, now() from users;
    insert into pushed_requests (id, digest, service_id, request, expires_at)
    select gen_random_uuid(), sha256((%(slug)s || n)::bytea), %(service)s, '{}', now() from generate_series(1, 20) as n;
    insert into logout_receivers (service_id) values (%(service)s);
    insert into provisioning_connections (id, org_id, service_id, preset, base_url, mapping, state)
    select gen_random_uuid(), org_id, id, 'generic', 'https://board.example/scim', '[]', 'draft' from services where id = %(service)s;
    insert into signal_settings (service_id, events, hosts, updated_at) values (%(service)s, '{session-revoked}', '{}', now());
    insert into signal_streams (id, service_id, method, events, status, created_at, updated_at)
    select gen_random_uuid(), %(service)s, 'poll', '{session-revoked}', 'enabled', now(), now() from generate_series(1, 5);
    insert into logout_notices (id, service_id, session_id, user_id, created_at, updated_at)
    select gen_random_uuid(), %(service)s, gen_random_uuid(), id, now(), now() from users;
    insert into identities (id, user_id, provider, issuer, subject, email, linked_at)
    select gen_random_uuid(), id, 'codehost', 'https://code.example', id::text, '', now() from users
        on conflict do nothing;
    insert into identity_grants (id, identity_id, service_id, client_id, scopes, updated_at)
    select gen_random_uuid(), id, %(service)s, 'client', '{}', now() from identities;
    insert into consents (id, user_id, service_id, scopes, granted_at)
    select gen_random_uuid(), id, %(service)s, '{openid}', now() from users;
    insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at)
    select user_id, service_id, gen_random_uuid(), 'https://api.example', '{read}', now() from consents where service_id = %(service)s;
    insert into flows (id, browser_digest, purpose, service_id, request, wanted, created_at, expires_at)
    select gen_random_uuid(), sha256('b'), 'authorize', %(service)s, '{}', '{}', now(), now() from generate_series(1, 8) as n;
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select gen_random_uuid(), users.id, %(organization)s, %(service)s, 'password', success, now()
      from users cross join (values (true), (false)) as outcome (success)
"""


async def fill(store: Store) -> None:
    await store.query(
        "insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, %(users)s) as n",
        {"users": USERS},
    )
    await store.query(
        "insert into all_organizations (id, slug, name, status, created_at, updated_at)"
        " values (%(id)s, 'acme', 'Acme', 'active', now(), now())",
        {"id": ACME},
    )
    # Of their browsers, where they sign in to applications.
    await store.query(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at)"
        " select gen_random_uuid(), id, now(), now(), now() + interval '1 day' from users"
    )
    for service, slug in ((SHOP, "shop"), (APP, "app")):
        for statement in _FILL.split(";"):
            await store.query(statement, {"organization": ACME, "service": service, "slug": slug})


# How often people signed in to it is known for as long as its organization exists.
COUNTS: Final = frozenset({"login_counts", "uncounted_logins"})


async def tables(store: Store) -> Mapping[str, str]:
    """Every table with rows that point to a service, and the column that does; later ones too."""
    rows = await store.query(
        "select c.table_name, c.column_name from information_schema.columns as c"
        "  join information_schema.tables as t using (table_schema, table_name)"
        " where c.table_schema = 'public' and t.table_type = 'BASE TABLE' and c.column_name in ('service_id', 'origin_service_id')"
    )
    return {row["table_name"]: row["column_name"] for row in rows if row["table_name"] not in COUNTS}


async def counted(store: Store, service: UUID) -> Mapping[str, int]:
    found = {}
    for table, column in (await tables(store)).items():
        (row,) = await store.query(f"select count(*) as n from {table} where {column} = %(service)s", {"service": service})
        found[table] = row["n"]
    return found


async def everything_of(store: Store, service: UUID) -> Mapping[str, list[Any]]:
    """Row by row, as text."""
    found = {}
    for table, column in {**await tables(store), "all_services": "id"}.items():
        rows = await store.query(f"select t::text as row from {table} as t where {column} = %(service)s order by 1", {"service": service})
        found[table] = [row["row"] for row in rows]
    return found


async def left_of(store: Store, service: UUID) -> int:
    return sum((await counted(store, service)).values())


async def delete(store: Store, service: UUID) -> None:
    await store.query("update all_services set deleted_at = now() where id = %(service)s", {"service": service})
