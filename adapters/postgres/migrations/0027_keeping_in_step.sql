-- additive
--
-- Keeping in step with directories that speak LDAP: docs/decisions/0193-keeping-in-step-with-a-directory.md. Nothing of it is used before an
-- administrator turns it on for a connection. A process of the release before cannot list members who came by it.

-- Every row fits, since each fitted the narrower constraint: nothing reads the table under the lock.
alter table memberships drop constraint memberships_came_by;
alter table memberships add constraint memberships_came_by check (came_by in ('added', 'founded', 'accepted', 'created', 'ldap')) not valid;

create index upstream_providers_in_step on upstream_providers (id) where kind = 'ldap' and ldap @> '{"keeps_in_step": true}';

-- How far each connection has come. Whoever makes a run holds the row's lease, and each part of the run takes the row again.
create table directory_steps (
    connection_id uuid        primary key references upstream_providers on delete cascade,
    org_id        uuid        not null references all_organizations on delete cascade,
    next_at       timestamptz,                           -- null: nothing until somebody starts a run
    wants_whole   boolean     not null default false,
    holder        uuid        not null,                  -- whose run it is or was
    leased_until  timestamptz,                           -- null: no run is under way
    runs          integer     not null default 0,
    whole_at      timestamptz,
    marks         jsonb,                                 -- how far the directory was read
    agreed_digest bytea,                                 -- the settings for which an owner let the first run go on
    agreed_run    uuid,                                  -- the run that an owner let go on, until a run has carried it out
    held_digest   bytea,                                 -- of those whom the last run that stopped would have ended
    held_since    timestamptz,
    held_run      uuid                                   -- the run that names them
);
create index directory_steps_of_organization on directory_steps (org_id);

create table directory_runs (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    connection_id   uuid        not null references upstream_providers on delete cascade,
    kind            text        not null check (kind in ('plan', 'whole', 'changes', 'identities')),
    state           text        not null check (state in ('running', 'done', 'failed', 'waiting', 'agreed', 'left', 'over')),
    started_at      timestamptz not null,
    ended_at        timestamptz,
    counts          jsonb       not null,
    fault           text        not null default '',
    settings_digest bytea       not null,
    digest          bytea                                -- of names and what happens, for a run that waits for an owner
);
create index directory_runs_of_connection on directory_runs (connection_id, id desc);
create index directory_runs_of_organization on directory_runs (org_id, id);
create index directory_runs_old on directory_runs (started_at);
create unique index directory_runs_one_at_a_time on directory_runs (connection_id) where state = 'running';
create unique index directory_runs_one_waits on directory_runs (connection_id) where state = 'waiting';

-- Whom a run names: those whom it would end, and those whom it has left out.
create table directory_run_people (
    run_id      uuid    not null references directory_runs on delete cascade,
    org_id      uuid    not null references all_organizations on delete cascade,
    place       integer not null,
    what        text    not null check (what in ('end', 'left_out')),
    reason      text    not null,
    named       text    not null,                        -- the address, or the name in the directory
    user_id     uuid    references users on delete cascade,
    external_id bytea,
    primary key (run_id, place)
);
create index directory_run_people_of_organization on directory_run_people (org_id);
create index directory_run_people_of_user on directory_run_people (user_id) where user_id is not null;

-- Whom a connection lists. A person has one directory in an organization, and is one identity at a connection.
create table directory_people (
    connection_id uuid        not null references upstream_providers on delete cascade,
    external_id   bytea       not null,                  -- the identity, as a sign-in keeps it
    org_id        uuid        not null references all_organizations on delete cascade,
    user_id       uuid        not null references users on delete cascade,
    digest        bytea       not null,                  -- of what the directory said last
    is_active     boolean     not null,
    ended_at      timestamptz,
    primary key (connection_id, external_id),
    constraint directory_people_one_identity unique (connection_id, user_id)
);
create unique index directory_people_one_directory on directory_people (org_id, user_id) where is_active;
create index directory_people_of_organization on directory_people (org_id, user_id);
create index directory_people_of_user on directory_people (user_id);
create index directory_people_ended on directory_people (connection_id, ended_at) where ended_at is not null;

create table directory_groups (
    connection_id uuid  not null references upstream_providers on delete cascade,
    external_id   bytea not null,
    team_id       uuid  not null unique references teams on delete cascade,
    digest        bytea not null,                        -- of its name and members
    primary key (connection_id, external_id)
);
