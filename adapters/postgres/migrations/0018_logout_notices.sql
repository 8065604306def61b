-- additive
-- Notices to services that a session of theirs has ended (OpenID Connect Back-Channel Logout).

alter table all_services
    add column backchannel_logout_uri text,
    add column backchannel_logout_session_required boolean not null default false;

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required
      from all_services
     where deleted_at is null;

create table logout_receivers (
    service_id    uuid        primary key references all_services on delete cascade,
    failing_since timestamptz,
    rests_until   timestamptz,
    lease         uuid,
    leased_until  timestamptz
) with (fillfactor = 70);

create table logout_notices (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    session_id   uuid        not null,
    user_id      uuid        not null,
    attempts     smallint    not null default 0,
    next_at      timestamptz,
    delivered_at timestamptz,
    status_code  smallint,
    error        text,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    unique (service_id, session_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index logout_notices_due        on logout_notices (service_id, next_at) where next_at is not null;
create index logout_notices_of_service on logout_notices (service_id, id);
create index logout_notices_oldest     on logout_notices (created_at);

create table logout_expiry (
    is_only    boolean     primary key default true check (is_only),
    seen_until timestamptz not null
);
