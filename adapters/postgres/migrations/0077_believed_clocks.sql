-- additive

-- Why the server's clock cannot be believed, or null. Nothing is deleted for its age meanwhile. `theirs` is the time of the process that asks,
-- or null. Something is written every day: a sample of the tables' sizes at least. What the last hour has written is no witness, since the
-- clock may have been wrong already.
create function doubt_of_clock(theirs timestamptz) returns text language sql stable set search_path = public, pg_temp as $$
    select case
               when abs(extract(epoch from now() - theirs)) > 30 then 'apart'
               when not (
                        exists (select from events where id >= since and id < until)
                        or exists (select from login_events where id >= since and id < until)
                        or exists (select from storage_samples where day >= today - 2 and day < today)
                    )
                    and (
                        exists (select from events where id < since)
                        or exists (select from login_events where id < since)
                        or exists (select from storage_samples where day < today - 2)
                    )
                   then 'unseen'
           end
      from (select first_id_of(now() - interval '2 days') as since, first_id_of(now() - interval '1 hour') as until,
                   (now() at time zone 'UTC')::date as today) as bounds
$$;

-- The months ahead that have no part, since somebody has put a table of this name there.
create function partitions_in_the_way(parent text, months integer) returns setof text language sql stable
    set search_path = public, pg_temp as $$
    select relname::text
      from generate_series(0, least(months, 12)) as number
      join pg_class on relname = parent || to_char(date_trunc('month', now() at time zone 'UTC') + make_interval(months => number), '"_"YYYY"_"MM')
     where relnamespace = to_regnamespace('partitions')
       and not exists (select from pg_inherits where inhrelid = pg_class.oid and inhparent = to_regclass(parent))
     order by number
$$;

-- A process of the release before does not say how long it has been up, and drops nothing.
drop function drop_partitions(text, interval);
create function drop_partitions(parent text, kept interval, up interval default '0', theirs timestamptz default null) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    part   record;
    need   text;
    needed boolean;
begin
    perform require_partitioned(parent);
    if up < interval '1 hour' or doubt_of_clock(theirs) is not null then
        return;
    end if;
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for part in
        select * from partitions_of(parent) as one where not one.is_rest and one.last <= first_id_of(now() - kept) order by one.last
    loop
        need := case parent
            when 'webhook_deliveries' then format(
                'select exists (select from partitions.%1$I where next_at is not null)'
                ' or exists (select from partitions.%1$I where created_at >= %2$L)',
                part.name, now() - kept
            )
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
            -- One at a time: a mistake must not cost all months.
            return next part.name;
            exit;
        exception
            when lock_not_available then
                -- Somebody reads it, or has begun to wait for it. The next call tries again: each try lets all others wait for a moment.
                exit;
            when dependent_objects_still_exist then
                -- Somebody has made a view of it. Its rows are swept.
                continue;
        end;
    end loop;
end $$;

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
    if doubt_of_clock(null) is not null then
        return 0;
    end if;
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
