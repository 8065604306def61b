-- additive
-- What a first review of the parts found.

-- Writers wait while a month is made. Before, a row that came in between forbade the month, or was refused.
create or replace function make_partitions(parent text, months integer) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    month timestamp;
    lower uuid;
    upper uuid;
    made  text;
    late  boolean;
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
        -- Writers would wait too long for so many rows to move, so they stay where they are, until they are swept.
        execute format(
            'select exists (select from partitions.%1$I where %2$I >= %3$L and %2$I < %4$L offset 50000)',
            parent || '_rest', partition_key(parent), lower, upper
        ) into late;
        continue when late;
        begin
            -- Writers wait, and find the new part afterwards. What would still go to the rest would forbid the part, or be refused.
            execute format('lock table only public.%I in share row exclusive mode', parent);
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

-- A lock that it does not get in time ends no call, also when it looks whether a part is needed.
create or replace function drop_partitions(parent text, kept interval) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    part   record;
    need   text;
    needed boolean;
begin
    perform require_partitioned(parent);
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for part in
        select * from partitions_of(parent) as one where not one.is_rest and one.last <= first_id_of(now() - kept) order by one.last
    loop
        need := case parent
            when 'webhook_deliveries' then format('select exists (select from partitions.%I where next_at is not null)', part.name)
            when 'events' then format(
                'select exists (select from public.webhook_deliveries where event_id >= %L and event_id < %L)',
                coalesce(part.first, '00000000-0000-0000-0000-000000000000'), part.last
            )
            else 'select false'
        end;
        begin
            execute need into needed;
            continue when needed;
            execute format('alter table public.%I detach partition partitions.%I', parent, part.name);
            -- Asked again: nobody else can write to it now.
            execute need into needed;
            if needed then
                raise lock_not_available;
            end if;
            execute format('drop table partitions.%I', part.name);
            return next part.name;
        exception when lock_not_available then
            -- Somebody reads it, or has begun to wait for it. The next call tries again: each try lets all others wait for a moment.
            exit;
        end;
    end loop;
end $$;

drop function partition_is_needed(text, uuid, uuid);

-- From a month that is over for a week and that one organization still needs, the rows of all others go. Deliveries that somebody has
-- queued again stay until they are done, as they do in the parts of months. A part that another process drops
-- meanwhile ends no call.
create or replace function sweep_partitions(parent text, kept interval, most integer) returns bigint
    language plpgsql security definer set search_path = public, pg_temp as $$
declare
    part  record;
    past  uuid[];
    swept bigint := 0;
    one   bigint;
    need  text := case parent
        when 'events' then
            'exists (select from webhooks'
            ' join webhook_deliveries on webhook_deliveries.webhook_id = webhooks.id and webhook_deliveries.event_id = part.id'
            ' where webhooks.org_id = part.organization_id offset 0)'
        when 'webhook_deliveries' then '(next_at is not null)'
        else 'false'
    end;
begin
    perform require_partitioned(parent);
    for part in
        select * from partitions_of(parent) as one
         where one.is_rest or one.first is null or one.last <= first_id_of(now() - kept - interval '7 days')
    loop
        begin
            execute format(
                'select array(select id from partitions.%I as part where %s and not %s order by %I limit %L for update skip locked)',
                part.name,
                case when parent = 'events'
                    then format('id < %L and occurred_at < now() - %L::interval', first_id_of(now() - kept), kept)
                    else format('created_at < now() - %L::interval', kept)
                end,
                need,
                case when parent = 'events' then 'id' else 'created_at' end,
                most - swept
            ) into past;
            -- Asked again: this statement sees what a replay has committed before the rows were locked.
            execute format('delete from partitions.%I as part where id = any ($1) and not %s', part.name, need) using past;
            get diagnostics one = row_count;
            swept := swept + one;
        exception when undefined_table then
            -- Somebody has just dropped it.
            null;
        end;
        exit when swept >= most;
    end loop;
    return swept;
end $$;

-- Whoever was granted something on one of the three tables has it on what took its place, too.
do $$
declare
    held record;
begin
    for held in
        select left(relname, -5) as parent, privilege_type as right, case when is_grantable then ' with grant option' else '' end as option,
               case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end as grantee
          from pg_class
         cross join aclexplode(relacl)
         where relnamespace = 'partitions'::regnamespace and relname in ('login_events_past', 'events_past', 'webhook_deliveries_past')
           and grantee <> relowner
    loop
        execute format('grant %s on public.%I to %s%s', held.right, held.parent, held.grantee, held.option);
    end loop;
end $$;
