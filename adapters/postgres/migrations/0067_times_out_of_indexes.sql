-- additive
-- A use of a session or a device moves a time that an index held, so each use wrote to every index of the table. The janitor's indexes
-- hold a day and a week instead, which most uses leave as they are. Triggers keep the two columns, also for the processes of the release
-- before.

alter table sessions add column expires_day    date;
alter table devices  add column last_used_week date;

create function keep_expires_day() returns trigger language plpgsql as $$
begin
    new.expires_day := (new.expires_at at time zone 'UTC')::date;
    return new;
end $$;
create trigger sessions_kept_for before insert or update of expires_at on sessions for each row execute function keep_expires_day();

create function keep_last_used_week() returns trigger language plpgsql as $$
begin
    new.last_used_week := date_trunc('week', new.last_used_at at time zone 'UTC')::date;
    return new;
end $$;
create trigger devices_kept_for before insert or update of last_used_at on devices for each row execute function keep_last_used_week();

-- Leave room on the page for the next version of the row. By default, a fifth of the rows may be dead before VACUUM comes.
alter table devices        set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table sessions       set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table refresh_tokens set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
