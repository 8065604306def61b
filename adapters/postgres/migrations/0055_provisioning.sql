-- additive
--
-- People arrive in the systems of applications, by SCIM: docs/decisions/0238-people-arrive-in-other-systems.md. Nothing of it is used before an
-- owner makes a connection active.

create table provisioning_connections (
    id                  uuid        primary key,
    org_id              uuid        not null references all_organizations on delete cascade,
    service_id          uuid        not null unique references all_services on delete cascade,
    preset              text        not null,
    base_url            text        not null,
    token               bytea,                               -- sealed; null: none, or emptied with another host
    mapping             jsonb       not null,
    attributes_left_out text[]      not null default '{}',
    sends_groups        boolean     not null default false,
    team_ids            uuid[],                              -- null: everybody whom the application admits
    state               text        not null check (state in ('draft', 'active', 'stopped', 'ending')),
    stopped_why         text,
    active_digest       bytea,                               -- of the settings that an owner has activated
    made_by             uuid,
    made_at             timestamptz not null default now(),
    changed_at          timestamptz not null default now(),
    -- what the worker keeps
    whole_due_at        timestamptz,                         -- when everybody is looked at next; null: not before somebody wants it
    whole_at            timestamptz,
    holder              uuid,
    leased_until        timestamptz,
    rests_until         timestamptz,                         -- the other system has asked for time, or fails
    failing_since       timestamptz,
    mailed_at           timestamptz,
    agreed_digest       bytea,                               -- the settings for which an owner let the plan go on
    agreed_run          uuid,
    held_run            uuid,                                -- the run that names whom a stop holds
    held_digest         bytea,
    held_since          timestamptz,
    taken               uuid[]      not null default '{}'    -- people whose marks were taken, until they are done
) with (fillfactor = 70);
create index provisioning_connections_active on provisioning_connections (org_id) where state in ('active', 'ending');
create index provisioning_connections_of_organization on provisioning_connections (org_id);

create table provisioned_people (
    connection_id uuid        not null references provisioning_connections on delete cascade,
    user_id       uuid        references users on delete set null,   -- null: forgotten or deleted here, and not yet there
    far_id        text,
    sent_digest   bytea,
    active        boolean     not null,
    state         text        not null check (state in ('sent', 'left_out', 'refused', 'to_end', 'to_delete')),
    why           text,
    user_name     text,
    tries         integer     not null default 0,
    due_at        timestamptz,
    ended_at      timestamptz,
    changed_at    timestamptz not null,
    constraint provisioned_people_one unique (connection_id, user_id),
    constraint provisioned_people_one_there unique (connection_id, far_id)
) with (fillfactor = 80);
create index provisioned_people_of_user on provisioned_people (user_id);
create index provisioned_people_to_delete on provisioned_people (connection_id) where state = 'to_delete';
create index provisioned_people_ended on provisioned_people (connection_id, ended_at) where ended_at is not null;

-- Who is to be looked at. Without a reference to people: who is gone is looked at, too.
create table provisioning_marks (
    connection_id uuid        not null references provisioning_connections on delete cascade,
    user_id       uuid        not null,
    marked_at     timestamptz not null,
    primary key (connection_id, user_id)
);

create table provisioning_runs (
    id              uuid        primary key,
    connection_id   uuid        not null references provisioning_connections on delete cascade,
    kind            text        not null check (kind in ('plan', 'whole', 'changes')),
    state           text        not null check (state in ('running', 'done', 'failed', 'waiting', 'agreed', 'left', 'over')),
    begun_at        timestamptz not null,
    ended_at        timestamptz,
    made            integer     not null default 0,
    matched         integer     not null default 0,
    changed         integer     not null default 0,
    overwritten     integer     not null default 0,
    ended           integer     not null default 0,
    left_out        integer     not null default 0,
    unchanged       integer     not null default 0,
    held_back       integer     not null default 0,
    why             text,
    settings_digest bytea       not null,
    digest          bytea
);
create index provisioning_runs_of_connection on provisioning_runs (connection_id, id desc);
create index provisioning_runs_old on provisioning_runs (begun_at);
create unique index provisioning_runs_one_at_a_time on provisioning_runs (connection_id) where state = 'running';
create unique index provisioning_runs_one_waits on provisioning_runs (connection_id) where state = 'waiting';

create table provisioning_run_people (
    run_id     uuid    not null references provisioning_runs on delete cascade,
    place      integer not null,
    what       text    not null check (what in ('made', 'matched', 'changed', 'ended', 'left_out', 'overwritten')),
    why        text,
    user_id    uuid    references users on delete cascade,
    far_id     text,
    attributes text[],
    primary key (run_id, place)
);
create index provisioning_run_people_of_user on provisioning_run_people (user_id) where user_id is not null;

create table provisioning_exchanges (
    id            bigint      generated always as identity primary key,
    connection_id uuid        not null references provisioning_connections on delete cascade,
    at            timestamptz not null,
    method        text        not null,
    path          text        not null,
    status        integer,
    scim_type     text,
    said          text        not null,
    has_failed    boolean     not null
);
create index provisioning_exchanges_of_connection on provisioning_exchanges (connection_id, has_failed, id desc);
create index provisioning_exchanges_old on provisioning_exchanges (at);
