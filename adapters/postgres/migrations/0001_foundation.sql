-- Accounts and sessions as far as every request needs them; jobs, events, audit entries, signing keys, rate limits.

create table users (
    id                uuid        primary key,
    email             text        not null,
    email_key         text        not null unique,     -- NFKC, case folded: what makes two addresses the same
    password_hash     text,                            -- null: signs in another way
    is_platform_owner boolean     not null default false,
    email_verified_at timestamptz,
    deactivated_at    timestamptz,
    created_at        timestamptz not null default now(),
    updated_at        timestamptz not null default now()
);
-- "Is there a platform owner?" is asked at every start.
create index users_platform_owners on users (id) where is_platform_owner;

create table sessions (
    id           uuid        primary key,
    user_id      uuid        not null references users on delete cascade,
    created_at   timestamptz not null,
    last_seen_at timestamptz not null,
    expires_at   timestamptz not null,
    revoked_at   timestamptz
) with (fillfactor = 80);                              -- last_seen_at moves often: leave room for updates on the page
create index sessions_of_user on sessions (user_id);
-- The janitor's.
create index sessions_expiry  on sessions (expires_at);
create index sessions_revoked on sessions (revoked_at) where revoked_at is not null;

create table signing_keys (
    id                 text        primary key,        -- the `kid`
    purpose            text        not null check (purpose in ('access', 'id')),
    state              text        not null check (state in ('next', 'current', 'outgoing')),
    public_jwk         jsonb       not null,
    sealed_private_key bytea       not null,
    created_at         timestamptz not null,
    activated_at       timestamptz,
    retires_at         timestamptz
);
create unique index signing_keys_one_current on signing_keys (purpose) where state = 'current';
create unique index signing_keys_one_next    on signing_keys (purpose) where state = 'next';

create table jobs (
    id             uuid        primary key,
    kind           text        not null,
    payload        json,                               -- in the clear; json and not jsonb, which refuses some strings (\u0000)
    sealed_payload bytea,                              -- or encrypted
    state          text        not null default 'waiting' check (state in ('waiting', 'dead')),
    priority       smallint    not null default 0 check (priority between -1 and 1),
    attempts       integer     not null default 0,
    run_at         timestamptz not null,
    lease          uuid,                               -- who holds it: a new one at each claim
    leased_until   timestamptz,
    last_error     text,
    created_at     timestamptz not null default now(),
    died_at        timestamptz,
    constraint jobs_one_payload check ((payload is null) <> (sealed_payload is null)),
    constraint jobs_dead_or_not check ((state = 'dead') = (died_at is not null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
-- A claim asks for one kind and priority after the other, so that neither a long backlog nor a crowd of later jobs costs it anything.
create index jobs_due  on jobs (kind, priority, run_at) where state = 'waiting';
create index jobs_dead on jobs (died_at) where state = 'dead';

create table events (
    id              uuid        primary key,
    name            text        not null,
    organization_id uuid,
    actor_id        uuid,
    impersonator_id uuid,
    target_type     text        not null,
    target_id       text        not null,
    details         jsonb       not null,
    occurred_at     timestamptz not null
);
create index events_of_organization on events (organization_id, id);

create table audit_entries (
    id              uuid        primary key,
    organization_id uuid,                              -- null: about the platform or about a person
    actor_id        uuid,                              -- null: the system
    impersonator_id uuid,
    action          text        not null,
    target_type     text        not null,
    target_id       text        not null,
    address         inet,
    user_agent      text,
    success         boolean     not null,
    details         jsonb       not null,
    created_at      timestamptz not null
);
create index audit_entries_of_organization on audit_entries (organization_id, id);
create index audit_entries_of_target       on audit_entries (target_type, target_id, id);

-- Unlogged: losing it in a crash of the database opens the buckets once, and each taken token costs no write-ahead log.
-- No index but the key: the columns change with every request, and only unindexed ones are updated within their page.
create unlogged table rate_limit_buckets (
    limit_name text             not null,
    key        text             not null,
    tokens     double precision not null,
    at         timestamptz      not null,
    wait       double precision not null,              -- seconds that the last taker has to wait; 0 when there was a token
    full_at    timestamptz      not null,              -- from then on the row says nothing that its absence does not
    primary key (limit_name, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
