-- Signing in: devices, refresh tokens, mailed tokens, MFA, login events; organizations and memberships as far as a session needs them.

create table organizations (
    id                 uuid        primary key,
    slug               text        not null unique,
    name               text        not null,
    status             text        not null default 'pending' check (status in ('pending', 'active', 'suspended', 'rejected')),
    logo_url           text,
    primary_color      text,
    device_trust_days  smallint    not null default 30 check (device_trust_days between 0 and 90),
    created_at         timestamptz not null,
    updated_at         timestamptz not null
);

create table memberships (
    id         uuid        primary key,
    org_id     uuid        not null references organizations on delete cascade,
    user_id    uuid        not null references users on delete cascade,
    role       text        not null,
    created_at timestamptz not null,
    unique (org_id, user_id)
);
create index memberships_of_user on memberships (user_id);

create table devices (
    id              uuid        primary key,
    user_id         uuid        not null references users on delete cascade,
    token_digest    bytea       unique,                 -- null: revoked
    name            text        not null,
    device_type     text        not null check (device_type in ('browser', 'mobile', 'desktop', 'cli')),
    browser         text,
    browser_version text,
    os              text,
    os_version      text,
    last_used_at    timestamptz not null,
    last_address    inet,
    last_country    text,
    last_city       text,
    risk_score      real        not null default 0,
    trust_digest    bytea       unique,                 -- the device trust token; null: not trusted
    trusted_until   timestamptz,
    revoked_at      timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null
);
create index devices_of_user on devices (user_id, last_used_at desc);
-- The janitor's.
create index devices_revoked on devices (revoked_at) where revoked_at is not null;
create index devices_unused  on devices (last_used_at);

alter table sessions
    add column device_id             uuid references devices on delete set null,
    add column organization_id       uuid references organizations on delete cascade,
    add column service_slug          text,
    -- Whatever the activity, not longer than this. The default is for processes of the release before, which still run during an upgrade.
    add column ends_at               timestamptz not null default now() + interval '90 days',
    add column authenticated_by      text[] not null default '{}',
    add column impersonator_id       uuid references users on delete cascade,
    add column impersonation_id      uuid,
    add constraint sessions_service_in_organization check (service_slug is null or organization_id is not null),
    add constraint sessions_impersonation check ((impersonator_id is null) = (impersonation_id is null));
-- Deleting what they point to must not read all sessions.
create index sessions_of_device       on sessions (device_id) where device_id is not null;
create index sessions_of_organization on sessions (organization_id) where organization_id is not null;
create index sessions_of_impersonator on sessions (impersonator_id) where impersonator_id is not null;
alter table users
    add column password_changed_at timestamptz,
    add column pending_email       text,
    add column pending_email_key   text;

-- Every refresh token of a living session, so that the return of an old one is recognised. The janitor removes rotated ones after 30 days.
create table refresh_tokens (
    digest     bytea       primary key,
    session_id uuid        not null references sessions on delete cascade,
    created_at timestamptz not null,
    rotated_at timestamptz,                             -- null: the current one
    rotated_by bytea,                                   -- what the client that rotated it looked like, as a digest
    constraint refresh_tokens_rotation check ((rotated_at is null) = (rotated_by is null))
);
create index refresh_tokens_of_session on refresh_tokens (session_id);
create unique index refresh_tokens_one_current on refresh_tokens (session_id) where rotated_at is null;
create index refresh_tokens_rotated on refresh_tokens (rotated_at) where rotated_at is not null;

-- What a mailed link carries: verification, reset, set-password, change of address.
create table mailed_tokens (
    digest     bytea       primary key,
    purpose    text        not null check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email')),
    user_id    uuid        not null references users on delete cascade,
    email      text        not null,                    -- the address that it proves
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at    timestamptz
);
create index mailed_tokens_of_user on mailed_tokens (user_id, purpose);
create index mailed_tokens_expiry on mailed_tokens (expires_at);

create table mfa_secrets (
    user_id       uuid        primary key references users on delete cascade,
    sealed_secret bytea       not null,
    created_at    timestamptz not null,
    enabled_at    timestamptz,                          -- null: set-up pending
    last_step     bigint      not null default 0        -- an accepted time step is never accepted again
);

create table backup_codes (
    user_id uuid  not null references users on delete cascade,
    digest  bytea not null,                             -- HMAC-SHA256 under a server key
    used_at timestamptz,
    primary key (user_id, digest)
);

create table preauthentications (                       -- password right, second factor awaited
    id          uuid        primary key,                -- the pre-auth token's jti
    user_id     uuid        not null references users on delete cascade,
    device_id   uuid        references devices on delete set null,
    organization_id uuid    references organizations on delete cascade,
    failures    smallint    not null default 0,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    consumed_at timestamptz
);
create index preauthentications_of_user on preauthentications (user_id);
create index preauthentications_expiry  on preauthentications (expires_at);

-- Random keys of this installation, sealed by the key ring: for what is only ever compared and could not be sealed anew.
create table server_secrets (
    purpose       text        primary key,
    sealed_secret bytea       not null,
    created_at    timestamptz not null
);

create table mfa_events (
    id         uuid        primary key,
    user_id    uuid        not null,                    -- kept when the user is gone
    name       text        not null,
    success    boolean     not null,
    address    inet,
    user_agent text,
    details    jsonb       not null default '{}',
    created_at timestamptz not null
);
create index mfa_events_of_user on mfa_events (user_id, id);
create index mfa_events_by_name on mfa_events (name, created_at);

create table login_events (
    id              uuid        primary key,
    user_id         uuid,                               -- null: nobody has this address
    organization_id uuid,
    service_id      uuid,
    device_id       uuid,
    provider        text        not null,               -- password, codehost, websuite, officesuite, saml
    success         boolean     not null,
    reason          text,                               -- of a failure, from a closed list
    address         inet,
    user_agent      text,
    risk_score      real        not null default 0,
    risk_factors    text[]      not null default '{}',
    flagged         boolean     not null default false,
    country         text,
    city            text,
    created_at      timestamptz not null
);
create index login_events_of_user on login_events (user_id, id desc);
-- A person's habits are read from these, however many strangers' tries lie between them.
create index login_events_good    on login_events (user_id, id desc) where success and not flagged;
create index login_events_of_organization on login_events (organization_id, id desc) where organization_id is not null;

create table impersonations (
    id              uuid        primary key,
    impersonator_id uuid        not null references users on delete cascade,
    user_id         uuid        not null references users on delete cascade,
    reason          text        not null,
    session_id      uuid        not null,               -- kept when the session is gone
    created_at      timestamptz not null,
    expires_at      timestamptz not null
);
create index impersonations_of_user         on impersonations (user_id);
create index impersonations_of_impersonator on impersonations (impersonator_id);
