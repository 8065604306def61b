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
    sealed_token        bytea,                               -- null: none, or emptied with another host
    token_set_at        timestamptz,
    mapping             jsonb       not null,
    attributes_left_out text[]      not null default '{}',
    sends_groups        boolean     not null default false,
    team_ids            uuid[],                              -- null: everybody whom the application admits
    state               text        not null check (state in ('draft', 'active', 'stopped', 'ending')),
    stopped_why         text,
    active_digest       bytea,                               -- of the settings that an owner has activated
    people_url          text,                                -- the address where the people of this connection are known
    made_by             uuid,
    made_at             timestamptz not null default now(),
    changed_at          timestamptz not null default now(),
    -- what the worker keeps
    whole_due_at        timestamptz,                         -- when everybody is looked at next; null: not before somebody wants it
    whole_at            timestamptz,
    holder              uuid,
    leased_until        timestamptz,
    again_at            timestamptz,                         -- the other system has asked for time, or fails
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
    delete_at     timestamptz,
    came_at       timestamptz,                          -- null: by a run that an owner let go on
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
    id            uuid        primary key default gen_random_uuid(),
    connection_id uuid        not null references provisioning_connections on delete cascade,
    at            timestamptz not null,
    place         integer     not null default 0,      -- among those that were noted at once
    method        text        not null,
    path          text        not null,
    status        integer,
    scim_type     text,
    said          text        not null,
    has_failed    boolean     not null
);
create index provisioning_exchanges_of_connection on provisioning_exchanges (connection_id, has_failed, at desc, place desc);
create index provisioning_exchanges_old on provisioning_exchanges (at);

-- Marks. Each trigger says `when` something differs that a mapping reads, and marks where the organization has an active connection. A mark
-- that is there is written again: whoever takes marks passes over those that are being written, and so reads no state of before. Conditions
-- name each column: PostgreSQL keeps a comparison of rows in another form after a restore, and `backup check` would call it a damage.

create function mark_person_there(person uuid, organization uuid) returns void language sql as $$
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, person, now()
      from provisioning_connections as connections
     where connections.org_id = organization and connections.state = 'active'
     order by connections.id
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at
$$;

create function mark_person_everywhere(person uuid) returns void language sql as $$
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, person, now()
      from memberships
      join provisioning_connections as connections on connections.org_id = memberships.org_id and connections.state = 'active'
     where memberships.user_id = person
     order by connections.id
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at
$$;

-- What concerns many: everybody is looked at. Not before an owner has let the first run go on.
create function mark_connections_there(organization uuid, service uuid) returns void language sql as $$
    update provisioning_connections
       set whole_due_at = now()
     where org_id = organization and (service is null or service_id = service) and state = 'active' and agreed_digest = active_digest
       and (whole_due_at is null or whole_due_at > now())
$$;

create function mark_users_there() returns trigger language plpgsql as $$
begin
    perform mark_person_everywhere(new.id);
    return null;
end $$;
create trigger users_marked_there
    after update of email, email_verified_at, address_vouched_by, name, given_name, family_name, username, zoneinfo, language, deactivated_at,
                    deactivated_by_org_id, locked_at on users
    for each row
    when (
           new.email is distinct from old.email
        or new.email_verified_at is distinct from old.email_verified_at
        or new.address_vouched_by is distinct from old.address_vouched_by
        or new.name is distinct from old.name
        or new.given_name is distinct from old.given_name
        or new.family_name is distinct from old.family_name
        or new.username is distinct from old.username
        or new.zoneinfo is distinct from old.zoneinfo
        or new.language is distinct from old.language
        or new.deactivated_at is distinct from old.deactivated_at
        or new.deactivated_by_org_id is distinct from old.deactivated_by_org_id
        or new.locked_at is distinct from old.locked_at
    )
    execute function mark_users_there();

-- Whoever was forgotten here is deleted there, by an id that leads to nobody here.
create function forget_people_there() returns trigger language plpgsql as $$
begin
    update provisioned_people set user_id = null where user_id = new.id;
    return null;
end $$;
create trigger users_forgotten_there after update of anonymized_at on users
    for each row when (old.anonymized_at is null and new.anonymized_at is not null) execute function forget_people_there();

create function forget_person_there() returns trigger language plpgsql as $$
begin
    new.state := 'to_delete';
    new.user_name := null;
    new.sent_digest := null;
    new.why := null;
    new.delete_at := null;
    return new;
end $$;
create trigger people_forgotten_there before update of user_id on provisioned_people
    for each row when (new.user_id is null and old.user_id is not null) execute function forget_person_there();

create function drop_person_there() returns trigger language plpgsql as $$
begin
    delete from provisioned_people where connection_id = new.connection_id and user_id is null and far_id is null;
    return null;
end $$;
create trigger people_dropped_there after update of user_id on provisioned_people
    for each row when (new.user_id is null and new.far_id is null) execute function drop_person_there();

-- Many members may come and go in one statement. In the order of their ids, two of these do not wait for each other.
create function mark_rows_there() returns trigger language plpgsql as $$
begin
    if exists (select from provisioning_connections where state = 'active') then
        insert into provisioning_marks (connection_id, user_id, marked_at)
        select distinct connections.id, rows.user_id, now()
          from rows
          join provisioning_connections as connections on connections.org_id = rows.org_id and connections.state = 'active'
         order by connections.id, rows.user_id
            on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    end if;
    return null;
end $$;
create trigger members_marked_there_when_added after insert on memberships
    referencing new table as rows for each statement execute function mark_rows_there();
create trigger members_marked_there_when_removed after delete on memberships
    referencing old table as rows for each statement execute function mark_rows_there();
create trigger team_members_marked_there_when_added after insert on team_members
    referencing new table as rows for each statement execute function mark_rows_there();
create trigger team_members_marked_there_when_removed after delete on team_members
    referencing old table as rows for each statement execute function mark_rows_there();

create function mark_members_there() returns trigger language plpgsql as $$
begin
    perform mark_person_there(new.user_id, new.org_id);
    return null;
end $$;
create trigger members_marked_there after update of role, role_id, own_since on memberships
    for each row when (
           new.role is distinct from old.role
        or new.role_id is distinct from old.role_id
        or new.own_since is distinct from old.own_since
    )
    execute function mark_members_there();
create trigger provisioned_users_marked_there after update of given_name, family_name, display_name on provisioned_users
    for each row
    when (
           new.given_name is distinct from old.given_name
        or new.family_name is distinct from old.family_name
        or new.display_name is distinct from old.display_name
    )
    execute function mark_members_there();
create trigger provisioned_users_marked_there_when_added after insert on provisioned_users
    for each row when (num_nonnulls(new.given_name, new.family_name, new.display_name) > 0) execute function mark_members_there();

-- Values of the organization's fields, and of the person's own.
create function mark_values_there() returns trigger language plpgsql as $$
begin
    if new.org_id is null then
        perform mark_person_everywhere(new.user_id);
    else
        perform mark_person_there(new.user_id, new.org_id);
    end if;
    return null;
end $$;
create trigger profile_values_marked_there after update of values on profile_values
    for each row when (new.values is distinct from old.values) execute function mark_values_there();
create trigger profile_values_marked_there_when_added after insert on profile_values
    for each row when (new.values <> '{}') execute function mark_values_there();

create function mark_consents_there() returns trigger language plpgsql as $$
begin
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, coalesce(new.user_id, old.user_id), now()
      from provisioning_connections as connections
     where connections.service_id = coalesce(new.service_id, old.service_id) and connections.state = 'active'
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    return null;
end $$;
create trigger consents_marked_there after update of scopes on consents
    for each row when (new.scopes is distinct from old.scopes) execute function mark_consents_there();
create trigger consents_marked_there_when_added after insert on consents
    for each row when (new.scopes is not null) execute function mark_consents_there();
create trigger consents_marked_there_when_removed after delete on consents
    for each row when (old.scopes is not null) execute function mark_consents_there();

-- Roles of the application: of one person, or of all who have a role or are in a team.
create function mark_assignments_there() returns trigger language plpgsql as $$
declare
    assigned relations := coalesce(new, old);
begin
    if assigned.user_id is null then
        perform mark_connections_there(assigned.organization_id, assigned.service_id);
    else
        perform mark_person_there(assigned.user_id, assigned.organization_id);
    end if;
    return null;
end $$;
create trigger assignments_marked_there_when_added after insert on relations
    for each row when (new.object_type = 'service_role') execute function mark_assignments_there();
create trigger assignments_marked_there_when_removed after delete on relations
    for each row when (old.object_type = 'service_role') execute function mark_assignments_there();

create function mark_teams_there() returns trigger language plpgsql as $$
begin
    perform mark_connections_there(new.org_id, null);
    return null;
end $$;
create trigger teams_marked_there after update of slug, role, role_id on teams
    for each row when (
           new.slug is distinct from old.slug
        or new.role is distinct from old.role
        or new.role_id is distinct from old.role_id
    )
    execute function mark_teams_there();
create trigger profile_fields_marked_there after update of deleted_at, scope, key on all_profile_fields
    for each row
    when (
        new.org_id is not null
        and (
               new.deleted_at is distinct from old.deleted_at
            or new.scope is distinct from old.scope
            or new.key is distinct from old.key
        )
    )
    execute function mark_teams_there();

create function mark_services_there() returns trigger language plpgsql as $$
begin
    perform mark_connections_there(new.org_id, new.id);
    return null;
end $$;
create trigger services_marked_there after update of sign_in_policy on all_services
    for each row when (new.sign_in_policy is distinct from old.sign_in_policy) execute function mark_services_there();
