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
KEPT: Final = frozenset({"audit_entries", "audit_links", "audit_pending", "resource_identifiers"})

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
    insert into ownerships (org_id, membership_id, former_role, since)
    select org_id, id, 'member', now() from memberships where org_id = %(organization)s order by id limit 1;
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, case when role_id is null then 'member' else 'holder' end,
           case when role_id is null then 'organization' else 'role' end, coalesce(role_id, org_id)
      from memberships where org_id = %(organization)s;
    insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'service-' || n, 'Service', 'web', gen_random_uuid(), now(), now()
      from generate_series(1, 3) as n;
    insert into service_users (service_id, user_id, org_id, created_at)
    select services.id, users.id, org_id, now() from services cross join users where org_id = %(organization)s;
    update users set origin_service_id = (select id from services where org_id = %(organization)s order by id limit 1)
     where id in (select id from users where origin_service_id is null order by id limit 25);
    insert into plans (id, service_id, name, price_cents, currency, created_at, updated_at)
    select gen_random_uuid(), id, 'Plan', 0, 'usd', now(), now() from services where org_id = %(organization)s;
    insert into subscriptions (id, service_id, user_id, plan_id, status, current_period_end, created_at, updated_at)
    select gen_random_uuid(), services.id, users.id, plans.id, 'active', now(), now(), now()
      from services join plans on plans.service_id = services.id cross join users where org_id = %(organization)s;
    insert into billing_checkouts (service_id, user_id, id, digest, asked_at)
    select service_id, user_id, gen_random_uuid(), '', now() from service_users where org_id = %(organization)s;
    insert into billing_subscriptions (external_id, org_id, service_id, user_id, plan_id, subscription_id, facets, created_at, updated_at)
    select 'sub_' || subscriptions.id, services.org_id, service_id, user_id, plan_id, subscriptions.id, '{}', now(), now()
      from subscriptions join all_services as services on services.id = subscriptions.service_id where services.org_id = %(organization)s;
    insert into billing_customers (id, org_id, created_at) values (gen_random_uuid(), %(organization)s, now());
    insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)
    select gen_random_uuid(), id, 'Key', id, sha256(id::text::bytea), '{read:users}', gen_random_uuid(), now()
      from services where org_id = %(organization)s;
    insert into proxies (service_id, rules, headers, updated_at) select id, '{}', '{}', now() from services where org_id = %(organization)s;
    insert into proxy_hosts (host, service_id) select id || '.example', id from services where org_id = %(organization)s;
    insert into service_logos (id, service_id, digest, media_type, content, created_at)
    select gen_random_uuid(), id, 'd', 'image/png', '', now() from services where org_id = %(organization)s;
    insert into user_key_settings (service_id, enabled, prefix, most_keys, updated_at)
    select id, true, 'key', 10, now() from services where org_id = %(organization)s;
    insert into user_keys (id, service_id, user_id, name, prefix, digest, scopes, created_at)
    select made.id, made.service_id, made.user_id, 'Key', made.id, sha256(made.id::text::bytea), '{}', now()
      from (select gen_random_uuid() as id, service_id, user_id from service_users where org_id = %(organization)s) as made;
    insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)
    select gen_random_uuid(), %(organization)s, 'Key', %(slug)s || n, sha256((%(slug)s || n)::bytea), '{}', now(), gen_random_uuid(), now()
      from generate_series(1, 3) as n;
    insert into trusted_issuers (id, org_id, service_id, name, issuer, audience, jwks_uri, subject_pattern, created_at, updated_at)
    select gen_random_uuid(), org_id, id, 'Rule of ' || slug, 'https://ci.example', 'a', 'https://ci.example/keys', 'a:b', now(), now()
      from services where org_id = %(organization)s;
    insert into setup_links (id, org_id, name, prefix, digest, purposes, activates, by_platform, expires_at, created_by, created_at)
    select gen_random_uuid(), %(organization)s, 'Link', %(slug)s || n, sha256((%(slug)s || n)::bytea), '{}', false, false, now(),
           gen_random_uuid(), now()
      from generate_series(1, 3) as n;
    insert into setup_drafts (id, link_id, org_id, purpose, subject, settings, created_at, updated_at)
    select gen_random_uuid(), id, org_id, 'domain', 'a.example', '{}', now(), now() from setup_links where org_id = %(organization)s;
    insert into proposals (id, org_id, document_digest, plan_digest, created_by, created_at, expires_at)
    select gen_random_uuid(), %(organization)s, 'digest', 'digest', gen_random_uuid(), now(), now() from generate_series(1, 9) as n;
    insert into managed_objects (org_id, service, kind, name, object_id, document, named, fields_digest, managed_at)
    select %(organization)s, '', 'roles', 'role ' || n, 'role', 'digest', '{}', 'digest', now() from generate_series(1, 9) as n;
    insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at)
    select gen_random_uuid(), %(organization)s, 'Token', %(slug)s || n, sha256((%(slug)s || n)::bytea), gen_random_uuid(), now()
      from generate_series(1, 3) as n;
    insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at)
    select %(organization)s, id, true, now(), now() from users;
    insert into scim_groups (org_id, updated_at) values (%(organization)s, now());
    insert into teams (id, org_id, slug, name, role, role_id, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, slug, 'Team', slug, id, now(), now() from roles where org_id = %(organization)s;
    insert into relations (organization_id, team_id, relation, object_type, object_id)
    select org_id, id, 'holder', 'role', role_id from teams where org_id = %(organization)s;
    insert into team_members (team_id, org_id, user_id, added_at)
    select teams.id, teams.org_id, user_id, now() from teams join memberships using (org_id) where org_id = %(organization)s;
    insert into all_profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'field_' || n, 'Field', 'text', '{}', now(), now() from generate_series(1, 3) as n;
    insert into profile_values (user_id, org_id, updated_at) select id, %(organization)s, now() from users;
    insert into former_slugs (org_id, noun, slug) select %(organization)s, 'team', 'old-' || n from generate_series(1, 25) as n;
    insert into scim_exchanges (id, org_id, token_id, token_name, method, path, status, occurred_at)
    select gen_random_uuid(), %(organization)s, id, 'Token', 'GET', '/scim/v2/Users', 200, now() from users;
    update users set origin_org_id = %(organization)s, deactivated_by_org_id = %(organization)s
     where id in (select id from users where origin_org_id is null order by id limit 25);
    insert into consents (id, user_id, service_id, scopes, granted_at)
    select gen_random_uuid(), users.id, services.id, '{openid}', now() from services cross join users where org_id = %(organization)s;
    insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at)
    select consents.user_id, services.id, gen_random_uuid(), 'https://api.example', '{read}', now()
      from services join consents on consents.service_id = services.id where services.org_id = %(organization)s;
    insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'Provider ' || n, 'https://login.example.org', 'client', 'sealed', '{}', true, now(), now()
      from generate_series(1, 3) as n;
    insert into identity_assertions (id, upstream_provider_id, digest, expires_at)
    select gen_random_uuid(), id, sha256('a'), now() from upstream_providers where org_id = %(organization)s;
    insert into directory_steps (connection_id, org_id, holder)
    select id, org_id, gen_random_uuid() from upstream_providers where org_id = %(organization)s;
    insert into directory_runs (id, org_id, connection_id, kind, state, started_at, counts, settings_digest)
    select gen_random_uuid(), org_id, id, 'whole', 'done', now(), '{}', '' from upstream_providers where org_id = %(organization)s;
    insert into directory_run_people (run_id, org_id, place, what, reason, named, user_id)
    select runs.id, runs.org_id, row_number() over (order by users.id), 'end', 'gone', 'Name', users.id
      from directory_runs as runs cross join users where runs.org_id = %(organization)s;
    insert into directory_people (connection_id, external_id, org_id, user_id, digest, is_active)
    select providers.id, uuid_send(users.id), providers.org_id, users.id, '', true
      from upstream_providers as providers cross join users where providers.org_id = %(organization)s and providers.name = 'Provider 1';
    insert into identities (id, user_id, provider, upstream_provider_id, issuer, subject, email, linked_at)
    select gen_random_uuid(), users.id, providers.id::text, providers.id, 'https://login.example.org', users.id::text, '', now()
      from upstream_providers as providers cross join users where providers.org_id = %(organization)s;
    insert into identity_grants (id, identity_id, service_id, client_id, scopes, updated_at)
    select gen_random_uuid(), identities.id, services.id, 'client', '{}', now()
      from identities join upstream_providers as providers on providers.id = identities.upstream_provider_id
      join services on services.org_id = providers.org_id
     where providers.org_id = %(organization)s;
    insert into permissions (id, service_id, key, created_at)
    select gen_random_uuid(), id, 'read', now() from services where org_id = %(organization)s;
    insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)
    select gen_random_uuid(), org_id, id, 'editor', 'Editor', now(), now() from services where org_id = %(organization)s;
    insert into former_slugs (org_id, service_id, noun, slug)
    select org_id, id, 'permission', 'former' from services where org_id = %(organization)s;
    insert into relations (organization_id, user_id, relation, object_type, object_id, id, service_id, created_at)
    select org_id, users.id, 'holder', 'service_role', roles.id, gen_random_uuid(), roles.service_id, now()
      from service_roles as roles cross join users where org_id = %(organization)s;
    insert into logout_receivers (service_id) select id from all_services where org_id = %(organization)s;
    insert into signal_settings (service_id, events, hosts, updated_at)
    select id, '{session-revoked}', '{}', now() from all_services where org_id = %(organization)s;
    insert into signal_streams (id, service_id, method, events, status, created_at, updated_at)
    select gen_random_uuid(), id, 'poll', '{session-revoked}', 'enabled', now(), now()
      from all_services cross join generate_series(1, 5) where org_id = %(organization)s;
    insert into provisioning_connections
           (id, org_id, service_id, preset, base_url, sealed_token, mapping, team_ids, state, stopped_why, made_by)
    select gen_random_uuid(), org_id, id, 'generic', 'https://board.example/scim', 'sealed',
           '[{"attribute": "userName", "source": "address"}]', array(select teams.id from teams where teams.org_id = services.org_id),
           'stopped', 'by_hand', gen_random_uuid()
      from services where org_id = %(organization)s;
    insert into provisioned_people (connection_id, user_id, far_id, active, state, changed_at)
    select connections.id, users.id, users.id::text, true, 'sent', now()
      from provisioning_connections as connections cross join users where org_id = %(organization)s;
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connection_id, user_id, now()
      from provisioned_people
      join provisioning_connections as connections on connections.id = connection_id
     where org_id = %(organization)s;
    insert into provisioning_progress (connection_id, name, place, part)
    select id, 'said', 0, '{}' from provisioning_connections where org_id = %(organization)s;
    insert into provisioning_runs (id, connection_id, kind, state, begun_at, settings_digest)
    select gen_random_uuid(), id, 'whole', 'done', now(), '' from provisioning_connections where org_id = %(organization)s;
    insert into provisioning_run_people (run_id, place, what, user_id)
    select runs.id, row_number() over (order by users.id), 'made', users.id
      from provisioning_runs as runs
      join provisioning_connections as connections on connections.id = connection_id
     cross join users where org_id = %(organization)s;
    insert into provisioning_exchanges (connection_id, at, method, path, said, has_failed)
    select id, now(), 'GET', '/Users', '', false from provisioning_connections where org_id = %(organization)s;
    insert into logout_notices (id, service_id, session_id, user_id, created_at, updated_at)
    select gen_random_uuid(), services.id, gen_random_uuid(), users.id, now(), now()
      from services cross join users where org_id = %(organization)s;
    insert into pushed_requests (id, digest, service_id, request, expires_at)
    select gen_random_uuid(), sha256(id::text::bytea), id, '{}', now() from services where org_id = %(organization)s;
    insert into flows (id, browser_digest, purpose, service_id, request, wanted, created_at, expires_at)
    select gen_random_uuid(), sha256('b'), 'authorize', id, '{}', '{}', now(), now() from all_services where org_id = %(organization)s;
    insert into awaited_sign_ins (id, user_id, session_id, service_id, began_at, ends_at)
    select gen_random_uuid(), users.id, sessions.id, services.id, now(), now()
      from (select id, row_number() over (order by id) as n from all_services where org_id = %(organization)s) as services
      join (select id, row_number() over (order by id) as n from users
             where not exists (select from awaited_sign_ins where user_id = users.id)) as users using (n)
     cross join (select id from sessions where service_id is null and organization_id is null order by created_at limit 1) as sessions;
    insert into device_codes (id, digest, user_code_hmac, service_id, scopes, created_at, expires_at, poll_interval)
    select gen_random_uuid(), sha256(id::text::bytea), sha256(id::text::bytea), id, '{openid}', now(), now(), 5
      from services where org_id = %(organization)s;
    insert into afar_requests (id, digest, service_id, scopes, foreign_scopes, created_at, expires_at, poll_interval)
    select gen_random_uuid(), sha256(id::text::bytea), id, '{openid}', '{}', now(), now(), 5 from services where org_id = %(organization)s;
    insert into afar_blocks (user_id, service_id, blocked_at)
    select users.id, services.id, now() from services cross join users where org_id = %(organization)s;
    insert into authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, scopes, auth_time, authenticated_by,
                                     created_at, expires_at)
    select gen_random_uuid(), sha256(services.id::text::bytea), services.id, browsers.user_id, browsers.id, 'https://a.example/',
           '{openid}', now(), '{pwd}', now(), now()
      from all_services as services cross join (select id, user_id from sessions where organization_id is null limit 1) as browsers
     where services.org_id = %(organization)s;
    insert into client_assertions (id, service_id, digest, expires_at)
    select gen_random_uuid(), id, sha256('a'), now() from all_services where org_id = %(organization)s;
    insert into saml_certificates (id, service_id, state, certificate, sealed_private_key, valid_from, valid_until, created_at)
    select gen_random_uuid(), services.id, 'active', '', '', now(), now(), now()
      from all_services as services where org_id = %(organization)s;
    insert into saml_requests (id, service_id, digest, expires_at)
    select gen_random_uuid(), services.id, sha256('a'), now()
      from all_services as services where org_id = %(organization)s;
    insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, created_at)
    select gen_random_uuid(), browsers.id, services.id, 'ada@example.org', '', now() from all_services as services
      cross join (select id from sessions where organization_id is null limit 1) as browsers
     where org_id = %(organization)s;
    insert into authorization_refusals (id, service_id, place, reason, received, expected, occurred_at)
    select gen_random_uuid(), services.id, '', '', '', '', now()
      from all_services as services where org_id = %(organization)s;
    insert into saml_exchanges (id, service_id, kind, binding, succeeded, status, reason, advice, message_id, in_response_to, created_at)
    select gen_random_uuid(), services.id, '', '', true, '', '', '', '', '', now()
      from all_services as services where org_id = %(organization)s;
    insert into saml_configurations (service_id, enabled, created_at, updated_at)
    select services.id, false, now(), now()
      from all_services as services where org_id = %(organization)s;
    insert into service_claims (id, service_id, name, source, told_in, created_at)
    select gen_random_uuid(), id, 'tier', 'plan', '{id_token}', now() from services where org_id = %(organization)s;
    insert into client_secrets (id, service_id, prefix, digest, created_at)
    select gen_random_uuid(), id, 'cs_', sha256(id::text::bytea), now() from services where org_id = %(organization)s;
    insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), users.id, %(organization)s, place.id, now(), now(), now() + interval '1 day'
      from users cross join (select null::uuid union all select id from services where org_id = %(organization)s and slug = 'service-1')
        as place (id);
    insert into refresh_tokens (digest, session_id, created_at)
    select sha256(id::text::bytea), id, now() from sessions where organization_id = %(organization)s;
    insert into preauthentications (id, user_id, organization_id, created_at, expires_at)
    select gen_random_uuid(), id, %(organization)s, now(), now() from users limit 20;
    insert into invitations (id, org_id, email, email_key, role, role_id, token_digest, expires_at, created_at)
    select gen_random_uuid(), org_id, 'i' || slug, 'i' || slug, slug, id, sha256(id::text::bytea), now(), now()
      from roles where org_id = %(organization)s;
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    select gen_random_uuid(), 'thing.done', %(organization)s, 'user', id::text, '{}', now() from users;
    insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, n::text, 'https://receiver.example', '{user.joined}', '', now(), now()
      from generate_series(1, 3) as n;
    insert into mail_servers (id, org_id, host, port, username, sealed_password, from_email, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'smtp.example', 587, 'u', '', 'a@b.example', now(), now());
    insert into offboarding_deadlines (id, org_id, removal_minutes, seen_to, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 60, now(), now(), now());
    insert into offboarding_watches (entry_id, deadline_id, act, act_at, look_at)
    select gen_random_uuid(), id, 'removal', now(), now() from offboarding_deadlines where org_id = %(organization)s;
    insert into logos (id, org_id, digest, media_type, content, created_at)
    values (gen_random_uuid(), %(organization)s, 'd', 'image/png', '', now());
    insert into look_pictures (id, org_id, kind, digest, media_type, content, created_at)
    select gen_random_uuid(), %(organization)s, kind, kind, 'image/png', '', now()
      from unnest('{dark_logo,favicon,background}'::text[]) as kind;
    insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, token, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, 'https://api.example/' || n, 'api.example', 'API',
           (select id from services where org_id = %(organization)s and slug = 'service-1'), 'named', 't', now(), now()
      from generate_series(1, 3) as n;
    insert into document_refusals (id, org_id, resource_id, address, reason, said, occurred_at)
    select gen_random_uuid(), org_id, id, '', '', '', now() from resource_servers where org_id = %(organization)s;
    insert into resource_admissions (id, resource_id, service_id)
    select gen_random_uuid(), resource_servers.id, services.id
      from resource_servers
      join services on services.org_id = resource_servers.org_id
     where resource_servers.org_id = %(organization)s;
    insert into resource_exchanges (id, resource_id, service_id)
    select gen_random_uuid(), id, service_id from resource_servers where org_id = %(organization)s;
    insert into resource_identifiers (key, org_id, is_proved, given_at)
    values ('https://api.example/' || %(organization)s::uuid, %(organization)s, true, now());
    insert into domains (id, org_id, domain, token, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'login.example', 't', now(), now());
    insert into domain_routes (id, org_id, domain, token, login_policy, join_policy, created_at, updated_at)
    select gen_random_uuid(), %(organization)s, n || '.example', 't', 'password_allowed', 'on', now(), now()
      from generate_series(1, 3) as n;
    insert into join_requests (id, org_id, user_id, email, status, created_at)
    select gen_random_uuid(), %(organization)s, id, 'a@b.example', 'pending', now() from users;
    insert into former_members (org_id, user_id, removed_at) select %(organization)s, id, now() from users;
    insert into oauth_credentials (id, org_id, provider, client_id, sealed_client_secret, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'codehost', 'c', '', now(), now());
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, created_at, updated_at)
    select gen_random_uuid(), webhooks.id, events.id, 'user.joined', now(), now()
      from webhooks join events on events.organization_id = webhooks.org_id
     where webhooks.org_id = %(organization)s;
    insert into hooks (id, org_id, point, address, silence, seconds, sealed_secret, secret_made_at, since, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'sign_in', 'https://hook.example/', 'go_on', 2, '', now(), now(), now(), now());
    insert into hook_exchanges (id, hook_id, at, milliseconds, outcome, counted, sent)
    select gen_random_uuid(), id, now(), 1, 'go_on', false, '{}' from hooks where org_id = %(organization)s;
    insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at)
    values (gen_random_uuid(), %(organization)s, 'SIEM', 'generic', 'https://siem.example', 1, now(), now());
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select gen_random_uuid(), id, %(organization)s, gen_random_uuid(), 'password', true, now() from users;
    insert into risk_decisions (login_event_id, organization_id, decided, created_at)
    select id, organization_id, '{}', created_at from login_events where organization_id = %(organization)s;
    insert into terms (id, organization_id, version, address, due_at, set_at, set_by, ended_at)
    select gen_random_uuid(), %(organization)s, n, 'https://acme.example', now(), now(), (select id from users limit 1), now()
      from generate_series(1, 9) as n;
    insert into terms_acceptances (user_id, terms_id, organization_id, accepted_at)
    select users.id, terms.id, terms.organization_id, now()
      from users
      join terms on terms.organization_id = %(organization)s and terms.version = '1';
    insert into organization_texts (id, org_id, key, language, text, based_on, updated_at)
    select gen_random_uuid(), %(organization)s, 'key_' || n, 'en', 'Text', '', now()
      from generate_series(1, 20) as n;
    insert into login_counts (org_id, hour, service_id, provider, logins)
    select %(organization)s, date_trunc('hour', now() - n * interval '1 hour'), gen_random_uuid(), 'password', 1
      from generate_series(1, 20) as n;
    insert into former_services (id, org_id, name, deleted_at)
    select gen_random_uuid(), %(organization)s, 'Gone', now() from generate_series(1, 9) as n;
    insert into audit_entries (id, organization_id, actor_id, action, target_type, target_id, success, details, created_at)
    select gen_random_uuid(), %(organization)s, id, 'thing.done', 'user', id::text, true, '{}', now() from users;
    insert into audit_personal (entry_id, actor_id, address, details, salt)
    select id, actor_id, '192.0.2.1', '{"email": "ada@example.org"}', '' from audit_entries where organization_id = %(organization)s;
    insert into audit_pending (entry_id, chain_id) select id, %(organization)s from audit_entries where organization_id = %(organization)s;
    insert into changed_settings (id, entry_id, organization_id, place, section, before, after, earlier, changed_at)
    select gen_random_uuid(), id, %(organization)s, '/ui/o/a/settings', 'change', '{}', '{}', 0, now()
      from audit_entries
     where organization_id = %(organization)s
"""


async def fill(store: Store) -> None:
    await store.query(
        "insert into users (id, email, email_key) select gen_random_uuid(), 'u' || n, 'u' || n from generate_series(1, %(members)s) as n",
        {"members": MEMBERS},
    )
    # Of somebody's browser.
    await store.query(
        "insert into sessions (id, user_id, created_at, last_seen_at, expires_at)"
        " select gen_random_uuid(), id, now(), now(), now() + interval '1 day' from users limit 1"
    )
    for organization, slug in ((ACME, "acme"), (OTHER, "other")):
        for statement in _FILL.split(";"):
            await store.query(statement, {"organization": organization, "slug": slug})


async def tables(store: Store) -> Mapping[str, str]:
    """Every table whose rows are an organization's, or a service's of its, and the condition that says so; later ones too."""
    rows = await store.query(
        "select c.table_name, min(c.column_name) filter (where c.column_name in ('org_id', 'organization_id', 'chain_id')) as own,"
        "       min(c.column_name) as of_service"
        "  from information_schema.columns as c"
        "  join information_schema.tables as t using (table_schema, table_name)"
        " where c.table_schema = 'public' and t.table_type = 'BASE TABLE'"
        "   and c.column_name in ('org_id', 'organization_id', 'chain_id', 'service_id', 'origin_service_id')"
        " group by c.table_name"
    )
    its_services = "in (select id from all_services where org_id = %(organization)s)"
    return {row["table_name"]: f"{row['own']} = %(organization)s" if row["own"] else f"{row['of_service']} {its_services}" for row in rows}


async def counted(store: Store, organization: OrganizationId) -> Mapping[str, int]:
    found = {}
    for table, condition in (await tables(store)).items():
        (row,) = await store.query(f"select count(*) as n from {table} where {condition}", {"organization": organization})
        found[table] = row["n"]
    return found


async def everything_of(store: Store, organization: OrganizationId) -> Mapping[str, list[Any]]:
    """Row by row, as text."""
    found = {}
    for table, condition in {**await tables(store), "all_organizations": "id = %(organization)s"}.items():
        rows = await store.query(f"select t::text as row from {table} as t where {condition} order by 1", {"organization": organization})
        found[table] = [row["row"] for row in rows]
    return found


async def left_of(store: Store, organization: OrganizationId) -> int:
    """All that must not be left of an organization that is deleted."""
    return sum(rows for table, rows in (await counted(store, organization)).items() if table not in KEPT)
