-- additive
-- Forgetting people, how members came to be members, and counted sign-ins.

alter table users add column anonymized_at timestamptz;
alter table users add constraint users_anonymized check (
    anonymized_at is null or (deactivated_at is not null and password_hash is null and not is_platform_owner)
);

alter table memberships add column came_by text not null default 'added'
    constraint memberships_came_by check (came_by in ('added', 'founded', 'accepted', 'created'));
-- Of earlier members only founders are known: an organization and the membership of its founder began at the same moment.
update memberships
   set came_by = 'founded'
  from all_organizations
 where all_organizations.id = memberships.org_id and all_organizations.owner_user_id = memberships.user_id
   and all_organizations.created_at = memberships.created_at;

alter table invitations add column mailed_digest bytea unique;
create index invitations_of_address on invitations (email_key);

create index events_personal_of_actor on events (actor_id) where personal is not null;
create index events_personal_about on events (target_id) where personal is not null;

create table privacy_requests (
    id           uuid        primary key,
    user_id      uuid        not null unique,
    requested_by uuid,
    email_keys   text[]      not null,
    requested_at timestamptz not null,
    completed_at timestamptz
);
create index privacy_requests_open on privacy_requests (user_id) where completed_at is null;

create table former_services (
    id         uuid        primary key,
    org_id     uuid        not null references all_organizations on delete cascade,
    name       text        not null,
    deleted_at timestamptz not null
);
create index former_services_of_organization on former_services (org_id);

create function remember_service() returns trigger language plpgsql as $$
begin
    insert into former_services (id, org_id, name, deleted_at) values (new.id, new.org_id, new.name, new.deleted_at)
        on conflict (id) do nothing;
    return null;
end $$;
create trigger services_deleted after update of deleted_at on all_services
    for each row when (old.deleted_at is null and new.deleted_at is not null) execute function remember_service();
insert into former_services (id, org_id, name, deleted_at)
select id, org_id, name, deleted_at from all_services where deleted_at is not null;

create table login_counts (
    org_id     uuid        not null references all_organizations on delete cascade,
    hour       timestamptz not null,
    service_id uuid        not null,
    provider   text        not null,
    logins     bigint      not null,
    primary key (org_id, hour, service_id, provider)
) with (fillfactor = 80);

create table platform_login_counts (
    hour     timestamptz not null,
    provider text        not null,
    logins   bigint      not null,
    primary key (hour, provider)
) with (fillfactor = 80);

create table uncounted_logins (
    id              uuid        primary key,
    organization_id uuid,
    service_id      uuid,
    provider        text        not null,
    hour            timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index uncounted_logins_of_organization on uncounted_logins (organization_id) where organization_id is not null;

create function queue_logins() returns trigger language plpgsql as $$
begin
    insert into uncounted_logins (id, organization_id, service_id, provider, hour)
    select id, organization_id, service_id, provider, date_trunc('hour', created_at, 'UTC') from rows where success;
    return null;
end $$;
-- From here until the commit nobody signs in, so each earlier sign-in is counted below, and each later one by the trigger.
create trigger logins_added after insert on login_events
    referencing new table as rows for each statement execute function queue_logins();

insert into login_counts (org_id, hour, service_id, provider, logins)
select all_organizations.id, date_trunc('hour', login_events.created_at, 'UTC'),
       coalesce(login_events.service_id, '00000000-0000-0000-0000-000000000000'), login_events.provider, count(*)
  from login_events
  join all_organizations on all_organizations.id = login_events.organization_id
 where login_events.success
 group by 1, 2, 3, 4;

insert into platform_login_counts (hour, provider, logins)
select date_trunc('hour', created_at, 'UTC'), provider, count(*) from login_events where success group by 1, 2;
