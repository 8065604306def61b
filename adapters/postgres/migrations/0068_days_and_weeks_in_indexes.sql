-- additive, in steps
-- The indexes that hold no moving time take the place of those that do. Until it ends, the janitor of the release before reads these two
-- tables whole.

-- step: batches of sessions by id
update sessions
   set expires_day = (expires_at at time zone 'UTC')::date
 where id between %(first)s and %(last)s and expires_day is null;

-- step: batches of devices by id
update devices
   set last_used_week = date_trunc('week', last_used_at at time zone 'UTC')::date
 where id between %(first)s and %(last)s and last_used_week is null;

-- step: index sessions_expired
create index concurrently sessions_expired on sessions (expires_day);

-- step: index devices_of_person
create index concurrently devices_of_person on devices (user_id);

-- step: index devices_long_unused
create index concurrently devices_long_unused on devices (last_used_week);

-- step: drop index sessions_expiry of sessions
drop index concurrently sessions_expiry;

-- step: drop index devices_of_user of devices
drop index concurrently devices_of_user;

-- step: drop index devices_unused of devices
drop index concurrently devices_unused;
