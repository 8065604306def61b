-- additive

-- The parts stand in a schema of their own: nobody names them but the functions below. An operator whose role may not make a schema makes it
-- beforehand.
do $$
begin
    if to_regnamespace('partitions') is null then
        create schema partitions;
    end if;
end $$;

-- What was there becomes the part of all that is older than the bound. It keeps its indexes.
alter table login_events       set schema partitions;
alter table events             set schema partitions;
alter table webhook_deliveries set schema partitions;
alter table partitions.login_events       rename to login_events_past;
alter table partitions.events             rename to events_past;
alter table partitions.webhook_deliveries rename to webhook_deliveries_past;
drop trigger logins_added on partitions.login_events_past;
alter table partitions.webhook_deliveries_past drop constraint webhook_deliveries_pkey;
alter table partitions.webhook_deliveries_past add constraint webhook_deliveries_pkey primary key using index webhook_deliveries_whole;

create table login_events (like partitions.login_events_past including defaults) partition by range (id);
alter table login_events add primary key (id);
create index login_events_of_user on login_events (user_id, id desc);
create index login_events_good    on login_events (user_id, id desc) where success and not flagged;
create index login_events_of_organization on login_events (organization_id, id desc) where organization_id is not null;
create index login_events_of_service on login_events (service_id, created_at) include (user_id) where service_id is not null and success;
create index login_events_newest on login_events (created_at);
create trigger logins_added after insert on login_events
    referencing new table as rows for each statement execute function queue_logins();

create table events (like partitions.events_past including defaults) partition by range (id);
alter table events add primary key (id);
create index events_of_organization on events (organization_id, id);
create index events_personal on events (occurred_at) where personal is not null;
create index events_personal_of_actor on events (actor_id) where personal is not null;
create index events_personal_about on events (target_id) where personal is not null;

create table webhook_deliveries (like partitions.webhook_deliveries_past including defaults) partition by range (event_id);
alter table webhook_deliveries add primary key (id, event_id);
alter table webhook_deliveries add unique (webhook_id, event_id);
create index webhook_deliveries_due    on webhook_deliveries (webhook_id, next_at) where next_at is not null;
create index webhook_deliveries_oldest on webhook_deliveries (created_at);

-- The parts of a table. `first` is null for what was there before; both bounds are null for the part of all that belongs to no other part.
create function partitions_of(parent text) returns table (name text, first uuid, last uuid, is_rest boolean) language sql stable as $$
    select part.relname::text,
           substring(pg_get_expr(part.relpartbound, part.oid) from 'FROM \(''([0-9a-f-]+)''\)')::uuid,
           substring(pg_get_expr(part.relpartbound, part.oid) from 'TO \(''([0-9a-f-]+)''\)')::uuid,
           pg_get_expr(part.relpartbound, part.oid) = 'DEFAULT'
      from pg_inherits
      join pg_class as part on part.oid = inhrelid
     where inhparent = to_regclass(parent)
$$;

-- What the table is cut by.
create function partition_key(parent text) returns text language sql immutable strict as $$
    select case parent when 'login_events' then 'id' when 'events' then 'id' when 'webhook_deliveries' then 'event_id' end
$$;

-- These run as the owner of the tables, since the role that serves owns none. Whoever may delete the rows may call them.
create function require_partitioned(parent text) returns void language plpgsql as $$
begin
    if partition_key(parent) is null or not has_table_privilege(session_user, parent, 'delete') then
        raise insufficient_privilege using message = format('%s has no parts that %s may change', parent, session_user);
    end if;
end $$;

-- Makes the parts of this month and of as many further months. Returns their names. Rows that have come already move from the rest.
create function make_partitions(parent text, months integer) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    month timestamp;
    lower uuid;
    upper uuid;
    made  text;
begin
    perform require_partitioned(parent);
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for number in 0..least(months, 12) loop
        month := date_trunc('month', now() at time zone 'UTC') + make_interval(months => number);
        lower := first_id_of(month at time zone 'UTC');
        upper := first_id_of((month + interval '1 month') at time zone 'UTC');
        continue when exists (
            select from partitions_of(parent) as part
             where not part.is_rest and part.last > lower and (part.first is null or part.first < upper)
        );
        made := parent || to_char(month, '"_"YYYY"_"MM');
        begin
            execute format('create table partitions.%I (like public.%I including defaults)', made, parent);
            if parent = 'webhook_deliveries' then
                execute format(
                    'alter table partitions.%I set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500)',
                    made
                );
            end if;
            execute format(
                'with moved as (delete from partitions.%1$I where %2$I >= %3$L and %2$I < %4$L returning *)'
                ' insert into partitions.%5$I select * from moved',
                parent || '_rest', partition_key(parent), lower, upper, made
            );
            execute format('alter table public.%I attach partition partitions.%I for values from (%L) to (%L)', parent, made, lower, upper);
        exception when lock_not_available then
            -- A long statement reads the table. The next call tries again.
            return;
        end;
        return next made;
    end loop;
end $$;

-- Drops the parts whose last row is older than this, but for those that are needed. Returns the names.
create function drop_partitions(parent text, kept interval) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    part   record;
    needed boolean;
begin
    perform require_partitioned(parent);
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for part in
        select * from partitions_of(parent) as one where not one.is_rest and one.last <= first_id_of(now() - kept) order by one.last
    loop
        continue when partition_is_needed(parent, part.first, part.last);
        begin
            execute format('alter table public.%I detach partition partitions.%I', parent, part.name);
            -- Asked again: nobody else can write to it now.
            if parent = 'webhook_deliveries' then
                execute format('select exists (select from partitions.%I where next_at is not null)', part.name) into needed;
            else
                needed := partition_is_needed(parent, part.first, part.last);
            end if;
            if needed then
                raise lock_not_available;
            end if;
            execute format('drop table partitions.%I', part.name);
            return next part.name;
        exception when lock_not_available then
            -- Somebody reads it, or has begun to wait for it. The next call tries again.
            null;
        end;
    end loop;
end $$;

-- Whether a part with these ids is needed: a delivery in it waits, or a delivery tells an event in it.
create function partition_is_needed(parent text, lower uuid, upper uuid) returns boolean language sql stable as $$
    select parent <> 'login_events' and exists (
               select from webhook_deliveries
                where (next_at is not null or parent = 'events')
                  and event_id < upper and event_id >= coalesce(lower, '00000000-0000-0000-0000-000000000000')
           )
$$;

-- Deletes a batch of rows that are older than this from the parts that no month bounds: what was there before, and the rest. An event stays
-- while a delivery tells it.
create function sweep_partitions(parent text, kept interval, most integer) returns bigint
    language plpgsql security definer set search_path = public, pg_temp as $$
declare
    part  record;
    past  uuid[];
    swept bigint := 0;
    one   bigint;
    told  text := case when parent = 'events' then
        'exists (select from webhooks'
        ' join webhook_deliveries on webhook_deliveries.webhook_id = webhooks.id and webhook_deliveries.event_id = part.id'
        ' where webhooks.org_id = part.organization_id offset 0)'
        else 'false' end;
begin
    perform require_partitioned(parent);
    for part in select * from partitions_of(parent) as one where one.is_rest or one.first is null loop
        execute format(
            'select array(select id from partitions.%I as part where %s and not %s order by %I limit %L for update skip locked)',
            part.name,
            case when parent = 'events'
                then format('id < %L and occurred_at < now() - %L::interval', first_id_of(now() - kept), kept)
                else format('created_at < now() - %L::interval', kept)
            end,
            told,
            case when parent = 'events' then 'id' else 'created_at' end,
            most - swept
        ) into past;
        -- Asked again: this statement sees what a replay has committed before the rows were locked.
        execute format('delete from partitions.%I as part where id = any ($1) and not %s', part.name, told) using past;
        get diagnostics one = row_count;
        swept := swept + one;
        exit when swept >= most;
    end loop;
    return swept;
end $$;

do $$
declare
    parent text;
    bound  text;
begin
    foreach parent in array array['login_events', 'events', 'webhook_deliveries'] loop
        select substring(pg_get_constraintdef(oid) from '''([0-9a-f-]{36})''')
          into strict bound
          from pg_constraint
         where conrelid = format('partitions.%I', parent || '_past')::regclass and conname = parent || '_past';
        execute format('alter table %I attach partition partitions.%I for values from (minvalue) to (%L)', parent, parent || '_past', bound);
        execute format('alter table partitions.%I drop constraint %I', parent || '_past', parent || '_past');
        execute format('create table partitions.%I partition of %I default', parent || '_rest', parent);
        perform make_partitions(parent, 3);
    end loop;
end $$;
