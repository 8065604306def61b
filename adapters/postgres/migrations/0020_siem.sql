-- additive
-- Where organizations have their audit log and their sign-ins sent, and how far that has come.

create table siem_configurations (
    id                 uuid        primary key,
    org_id             uuid        not null unique references all_organizations on delete cascade,
    name               text        not null,
    provider_type      text        not null check (provider_type in ('splunk_hec', 'datadog', 'elastic', 'generic')),
    endpoint_url       text        not null,
    sealed_credentials bytea,
    batch_size         smallint    not null check (batch_size between 1 and 1000),
    is_active          boolean     not null default true,
    sign_ins           bigint      not null default 0,
    audit_sequence     bigint      not null default 0,
    audit_digest       bytea       not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
    sign_in_sequence   bigint      not null default 0,
    sign_in_digest     bytea       not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
    last_delivered_at  timestamptz,
    last_error         text,
    failures           integer     not null default 0,
    next_at            timestamptz not null default now(),
    lease              uuid,
    leased_until       timestamptz,
    created_at         timestamptz not null,
    updated_at         timestamptz not null
) with (fillfactor = 70);

create table sign_in_pending (
    event_id  uuid primary key,
    export_id uuid not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_index_cleanup = on);

create table sign_in_links (
    export_id  uuid   not null,
    sequence   bigint not null check (sequence > 0),
    event_id   uuid   not null,
    content    jsonb  not null,
    commitment bytea  not null,
    created_at timestamptz not null,
    primary key (export_id, sequence)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The default applies to what is written from now on: the table is not rewritten, and the release before writes it too.
alter table login_events add column salt uuid;
alter table login_events alter column salt set default gen_random_uuid();
