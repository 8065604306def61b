-- Services: what their users have paid for, and the keys by which their own servers speak to us. Nothing of before this was released, so it
-- changes in place what it changes.

-- As with organizations: a service that is deleted is gone from every answer at once, while its rows go in batches.
alter table sessions drop constraint sessions_service, drop constraint sessions_service_in_organization;
alter table services rename to all_services;
alter table all_services rename constraint services_pkey to all_services_pkey;
alter table all_services rename constraint services_org_id_fkey to all_services_org_id_fkey;
alter table all_services rename constraint services_service_type_check to all_services_service_type_check;
alter table all_services rename constraint services_client_id_key to all_services_client_id_key;
alter table all_services drop constraint services_org_id_slug_key;
alter table all_services
    add column user_count integer     not null default 0,
    add column deleted_at timestamptz;                   -- its rows are on their way out
update all_services set user_count = (select count(*) from service_users where service_id = all_services.id);
create unique index services_slug on all_services (org_id, slug) where deleted_at is null;
create index services_oldest on all_services (org_id, created_at, id);
create index services_going on all_services (deleted_at) where deleted_at is not null;

create view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at
      from all_services
     where deleted_at is null;

-- A session in a service ends with it.
drop index sessions_of_service;
alter table sessions
    drop column service_slug,
    add column service_id uuid references all_services on delete cascade,
    add constraint sessions_service_in_organization check (service_id is null or organization_id is not null);
create index sessions_of_service on sessions (service_id, id) where service_id is not null;
alter table preauthentications add column service_id uuid references all_services on delete cascade;
create index preauthentications_of_service on preauthentications (service_id) where service_id is not null;

-- Through which service the account came to be: its own registration, or the service's servers. Only that one may ever delete it.
alter table users add column origin_service_id uuid references all_services on delete set null;
create index users_of_origin on users (origin_service_id, id) where origin_service_id is not null;

-- Pages of a service's users.
create index service_users_oldest on service_users (service_id, created_at, user_id);

-- Where a page of a service's users begins is looked up among these, and not by walking over all before it: each mark counts the users from
-- its place in that index up to the next mark. There are one to two thousand between two, unless many left.
create table service_user_marks (
    service_id uuid        not null references all_services on delete cascade,
    created_at timestamptz not null,
    user_id    uuid        not null,                     -- no reference: whoever stood there may have left
    users      integer     not null,
    primary key (service_id, created_at, user_id)
) with (fillfactor = 70);
insert into service_user_marks (service_id, created_at, user_id, users)
select service_id, '-infinity', '00000000-0000-0000-0000-000000000000', count(*) from service_users group by service_id;

create function count_service_users() returns trigger language plpgsql as $$
declare
    step constant integer := case tg_op when 'INSERT' then 1 else -1 end;
    mark record;
begin
    -- Most sign-ins are of somebody who has been there before.
    if not exists (select from rows) then
        return null;
    end if;
    -- In one order everywhere: two that change the users of the same services cannot deadlock. What follows sees what others did before.
    perform
       from all_services
      where id in (select service_id from rows) and (step > 0 or deleted_at is null)
      order by id
        for no key update;
    update all_services
       set user_count = user_count + step * changed.users
      from (select service_id, count(*) as users from rows group by service_id) as changed
     where all_services.id = changed.service_id and (step > 0 or all_services.deleted_at is null);
    if step < 0 then
        -- Of a service that is going. Whoever takes away the same at this moment has these rows, and waits for none of ours.
        delete from service_user_marks as marks
         using (
                   select service_id, created_at, user_id
                     from service_user_marks
                    where service_id = any (array(
                              select id from all_services where deleted_at is not null and id in (select service_id from rows)
                          ))
                      for update skip locked
               ) as going
         where (marks.service_id, marks.created_at, marks.user_id) = (going.service_id, going.created_at, going.user_id);
    else
        insert into service_user_marks (service_id, created_at, user_id, users)
        select distinct service_id, '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid, 0 from rows
            on conflict do nothing;
    end if;
    for mark in
        update service_user_marks as marks
           set users = marks.users + step * changed.users
          from (
                   select rows.service_id, place.created_at, place.user_id, count(*)::integer as users
                     from rows
                     join all_services on all_services.id = rows.service_id and (step > 0 or all_services.deleted_at is null)
                    cross join lateral (
                              select marks.created_at, marks.user_id
                                from service_user_marks as marks
                               where marks.service_id = rows.service_id
                                 and (marks.created_at, marks.user_id) <= (rows.created_at, rows.user_id)
                               order by marks.created_at desc, marks.user_id desc
                               limit 1
                          ) as place
                    group by rows.service_id, place.created_at, place.user_id
               ) as changed
         where (marks.service_id, marks.created_at, marks.user_id) = (changed.service_id, changed.created_at, changed.user_id)
     returning marks.service_id, marks.created_at, marks.user_id, marks.users
    loop
        if mark.users = 0 then
            delete from service_user_marks as marks
             where (marks.service_id, marks.created_at, marks.user_id) = (mark.service_id, mark.created_at, mark.user_id)
               and marks.created_at > '-infinity';
        elsif mark.users > 2000 then
            -- A mark at each thousand, the last of which has what is left over.
            insert into service_user_marks (service_id, created_at, user_id, users)
            select mark.service_id, placed.created_at, placed.user_id,
                   case when placed.place / 1000 = mark.users / 1000 - 1 then mark.users - placed.place else 1000 end
              from (
                       select created_at, user_id, row_number() over (order by created_at, user_id) - 1 as place
                         from service_users
                        where service_id = mark.service_id and (created_at, user_id) >= (mark.created_at, mark.user_id)
                        order by created_at, user_id
                        limit mark.users
                   ) as placed
             where placed.place > 0 and placed.place % 1000 = 0 and placed.place / 1000 < mark.users / 1000;
            update service_user_marks as marks
               set users = 1000
             where (marks.service_id, marks.created_at, marks.user_id) = (mark.service_id, mark.created_at, mark.user_id);
        end if;
    end loop;
    return null;
end $$;
create trigger service_users_added after insert on service_users
    referencing new table as rows for each statement execute function count_service_users();
create trigger service_users_removed after delete on service_users
    referencing old table as rows for each statement execute function count_service_users();

create table client_secrets (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    prefix     text        not null,
    digest     bytea       not null unique,
    created_by uuid,                                     -- kept when the user is gone
    created_at timestamptz not null
);
create index client_secrets_of_service on client_secrets (service_id, created_at);

create table plans (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    name               text        not null,
    price_cents        integer     not null check (price_cents >= 0),
    currency           text        not null check (currency ~ '^[a-z]{3}$'),
    features           text[]      not null default '{}',
    billing_price_id   text,
    active_count       integer     not null default 0,   -- of its subscriptions, by their status
    past_due_count     integer     not null default 0,
    cancelled_count    integer     not null default 0,
    expired_count      integer     not null default 0,
    subscription_count integer     not null generated always as (active_count + past_due_count) stored,     -- of those that live
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    deleted_at         timestamptz                       -- kept for the history of who was on it
);
create index plans_of_service on plans (service_id, price_cents, created_at, id);

create table subscriptions (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    user_id            uuid        not null references users on delete cascade,
    plan_id            uuid        not null references plans,
    status             text        not null check (status in ('active', 'cancelled', 'expired', 'past_due')),
    current_period_end timestamptz not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null
);
-- One that lives, whatever is asked for at once. Those that are over stay, as their history.
create unique index subscriptions_one_living on subscriptions (service_id, user_id) where status in ('active', 'past_due');
create index subscriptions_of_user    on subscriptions (user_id, service_id, created_at desc, id desc);
create index subscriptions_of_service on subscriptions (service_id, created_at, id);
create index subscriptions_by_status  on subscriptions (service_id, status, created_at, id);
create index subscriptions_of_plan    on subscriptions (plan_id, id);
create index subscriptions_ending     on subscriptions (current_period_end) where status = 'active';

-- How many there are of each status is asked by every list, and whether any lives whenever a plan is to go. One plan after the other, in one
-- order everywhere: two that move subscriptions of the same plans cannot deadlock.
create function count_subscriptions() returns trigger language plpgsql as $$
declare
    plan_ids uuid[];
    statuses text[];
    steps    integer[];
    changed  record;
begin
    if tg_op <> 'DELETE' then
        select array_agg(plan_id), array_agg(status), array_agg(1) into plan_ids, statuses, steps from come;
    end if;
    if tg_op <> 'INSERT' then
        select plan_ids || array_agg(plan_id), statuses || array_agg(status), steps || array_agg(-1) into plan_ids, statuses, steps from gone;
    end if;
    for changed in
        select plan_id,
               coalesce(sum(step) filter (where status = 'active'), 0)    as active,
               coalesce(sum(step) filter (where status = 'past_due'), 0)  as past_due,
               coalesce(sum(step) filter (where status = 'cancelled'), 0) as cancelled,
               coalesce(sum(step) filter (where status = 'expired'), 0)   as expired
          from unnest(plan_ids, statuses, steps) as moved (plan_id, status, step)
         group by plan_id
         order by plan_id
    loop
        update plans
           set active_count = active_count + changed.active, past_due_count = past_due_count + changed.past_due,
               cancelled_count = cancelled_count + changed.cancelled, expired_count = expired_count + changed.expired
         where id = changed.plan_id and (changed.active, changed.past_due, changed.cancelled, changed.expired) <> (0, 0, 0, 0);
    end loop;
    return null;
end $$;
create trigger subscriptions_added after insert on subscriptions
    referencing new table as come for each statement execute function count_subscriptions();
create trigger subscriptions_changed after update on subscriptions
    referencing old table as gone new table as come for each statement execute function count_subscriptions();
create trigger subscriptions_removed after delete on subscriptions
    referencing old table as gone for each statement execute function count_subscriptions();

create table api_keys (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    permissions  text[]      not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_by   uuid        not null,                   -- kept when the user is gone
    created_at   timestamptz not null
) with (fillfactor = 80);
create index api_keys_of_service on api_keys (service_id, created_at desc, id desc);

-- Analytics of one service.
create index login_events_of_service on login_events (service_id, created_at) include (user_id) where service_id is not null and success;

-- What is to be forgotten of somebody, in whatever log it stands. No other question can mistake a hash index for a way to its entries.
create index audit_entries_about on audit_entries using hash (target_id) where target_type = 'user';
