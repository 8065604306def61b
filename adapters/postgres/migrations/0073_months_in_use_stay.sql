-- additive

-- What stands in the way of one month stops no other month.
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
        exception
            when lock_not_available then
                -- A long statement reads the table. The next call tries again.
                return;
            when duplicate_table then
                -- Somebody has put a table in the way. The rows of this month go to the rest.
                continue;
        end;
        return next made;
    end loop;
end $$;

-- A replay queues young deliveries of old events, and these go to the month of their event. The month stays as long as one of them is to be
-- kept.
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
            return next part.name;
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

-- As the months have it: deliveries that a replay queues after their month is gone stand here.
alter table partitions.webhook_deliveries_rest
    set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
