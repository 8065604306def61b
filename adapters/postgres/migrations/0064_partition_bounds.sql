-- additive

-- Sign-ins, events and deliveries are to be cut by time, so that retention drops a part instead of deleting rows. What is there becomes the
-- first part of each, if PostgreSQL knows that nothing in it is younger than a bound. This migration says so, the next one checks it, and
-- the third one makes the parts. To turn back before the third: drop the three constraints.

-- The smallest id that begins with this moment. Ids are UUIDv7, and a delivery is cut by the id of its event.
create function first_id_of(moment timestamptz) returns uuid language sql immutable strict as $$
    select (lpad(to_hex(greatest(floor(extract(epoch from moment) * 1000)::bigint, 0)), 12, '0') || repeat('0', 20))::uuid
$$;

do $$
declare
    -- At least a month ahead: until the third migration, nothing younger can be written.
    bound uuid := first_id_of((date_trunc('month', now() at time zone 'UTC') + interval '2 months') at time zone 'UTC');
begin
    execute format('alter table login_events add constraint login_events_past check (id < %L) not valid', bound);
    execute format('alter table events add constraint events_past check (id < %L) not valid', bound);
    execute format('alter table webhook_deliveries add constraint webhook_deliveries_past check (event_id < %L) not valid', bound);
end $$;
