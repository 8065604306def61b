-- additive
-- Services as OAuth clients: how people get in, how they authenticate, and the codes that are exchanged for sessions.

alter table all_services
    add column sign_in_policy            text    not null default 'anyone' check (sign_in_policy in ('anyone', 'members')),
    add column trusted                   boolean not null default false,
    add column jwks                      jsonb,
    add column id_token_alg              text    not null default 'RS256' check (id_token_alg in ('RS256', 'ES256')),
    add column post_logout_redirect_uris text[]  not null default '{}';

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris
      from all_services
     where deleted_at is null;

-- Pages of these origins may call the token endpoint from a browser, if their service is a public client.
create function web_origins(uris text[]) returns text[] language sql immutable as $$
    select array(select distinct substring(uri from '^https?://[^/?]+') from unnest(uris) as uri)
$$;
create index services_origins on all_services using gin (web_origins(redirect_uris)) where service_type = 'web' and deleted_at is null;

alter table sessions
    add column scopes text[],
    add constraint sessions_scopes_in_service check (scopes is null or service_id is not null);

create table authorization_codes (
    id             uuid        primary key,
    digest         bytea       not null unique,
    service_id     uuid        not null references all_services on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    parent_id      uuid        not null references sessions on delete cascade,
    redirect_uri   text        not null,
    code_challenge text,
    nonce          text,
    scopes         text[]      not null,
    auth_time      timestamptz not null,
    authenticated_by text[]    not null,
    created_at     timestamptz not null,
    expires_at     timestamptz not null,
    redeemed_at    timestamptz,
    redeemed_with  bytea,
    session_id     uuid,
    constraint authorization_codes_redeemed check (
        (redeemed_at is null) = (redeemed_with is null) and (redeemed_at is null) = (session_id is null)
    )
);
create index authorization_codes_of_service on authorization_codes (service_id, id);
create index authorization_codes_of_user    on authorization_codes (user_id);
create index authorization_codes_of_parent  on authorization_codes (parent_id);
create index authorization_codes_expiry     on authorization_codes (expires_at);

create table client_assertions (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    digest     bytea       not null,
    expires_at timestamptz not null,
    unique (service_id, digest)
);
create index client_assertions_of_service on client_assertions (service_id, id);
create index client_assertions_expiry     on client_assertions (expires_at);

-- ID tokens may be signed with ES256 too. Processes that know nothing of it go on with the view: they could not read the new purpose.
alter table signing_keys rename to all_signing_keys;
alter index signing_keys_pkey rename to all_signing_keys_pkey;
alter table all_signing_keys
    drop constraint signing_keys_purpose_check,
    add constraint signing_keys_purpose_check check (purpose in ('access', 'id', 'id_es256'));
create view signing_keys as
    select id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at, retires_at
      from all_signing_keys
     where purpose in ('access', 'id');
