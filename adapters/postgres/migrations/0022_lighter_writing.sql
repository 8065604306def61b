-- additive
--
-- A sign-in and a redemption write less beside their rows: docs/decisions/0174-what-a-sign-in-writes.md says what each index, key and trigger
-- is for, and which of them nobody needed.

-- Who says the day or the week with the time is spared the call. An older process says neither, and the trigger says it.
create or replace trigger sessions_kept_for before insert or update of expires_at on sessions
    for each row when (new.expires_day is distinct from (new.expires_at at time zone 'UTC')::date) execute function keep_expires_day();
create or replace trigger devices_kept_for before insert or update of last_used_at on devices
    for each row when (new.last_used_week is distinct from date_trunc('week', new.last_used_at at time zone 'UTC')::date)
    execute function keep_last_used_week();

-- A statement logs one sign-in: its row needs no table of new rows around it, and a failed try no call.
create function queue_login() returns trigger language plpgsql as $$
begin
    insert into uncounted_logins (id, organization_id, service_id, provider, hour)
    values (new.id, new.organization_id, new.service_id, new.provider, date_trunc('hour', new.created_at, 'UTC'));
    return null;
end $$;
drop trigger logins_added on login_events;
create trigger logins_added after insert on login_events for each row when (new.success) execute function queue_login();
drop function queue_logins();

-- The table holds the sign-ins of a few seconds. Who asks for those of one organization reads them all.
drop index uncounted_logins_of_organization;
-- Nobody looks a device up by this digest of random bits.
alter table devices drop constraint devices_trust_digest_key;
-- The reference ended no session: it emptied the column when the janitor removed the device, weeks after its last session had ended.
alter table sessions drop constraint sessions_device_id_fkey;

-- A code is changed once, seconds after it was made, and an entry at each visit: with room on the page, that touches no index.
alter table authorization_codes set (fillfactor = 60);
alter table service_users set (fillfactor = 80);
