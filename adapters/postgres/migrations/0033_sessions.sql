-- additive
--
-- How long sessions of an organization and its services may rest, how long those of a service last, and how many sign-ins of one person may
-- be open at once. A session carries what ends it at the next sign-in, so that nobody looks the rules up. A process of the release before
-- writes no such numbers, and its sessions end nobody's.

alter table all_organizations add column session_idle_minutes integer  check (session_idle_minutes between 5 and 43200);  -- null: as the installation
alter table all_organizations add column most_sessions        smallint check (most_sessions between 1 and 100);           -- null: as many as come

alter table all_services add column session_lifetime_hours smallint check (session_lifetime_hours between 1 and 2160);               -- null: as the organization
alter table all_services add column session_idle_minutes integer  check (session_idle_minutes between 5 and 43200);
alter table all_services add column most_sessions        smallint check (most_sessions between 1 and 100);

alter table sessions add column minutes_idle    integer;   -- without a use for so long, it ends; null: thirty days
alter table sessions add column most            smallint;  -- sign-ins of its person at once: their own, or in the organization; null: any number
alter table sessions add column most_in_service smallint;  -- the same for its service

-- A sign-in and all sessions that were opened from it count as one. The oldest sign-ins beyond the number lose what they have there, and all
-- that was opened from it. A job tells the person and the applications.
--
-- A client of ours opens a session in the next organization from one in the last. What was opened in another organization does not end: from
-- then on it hangs on the nearest session above it that goes on.
--
-- Of requests that open sessions of one person, the second waits before its insert for the first to commit. The function looks after the
-- insert, by statements of its own, and so it sees what the first has opened. The lock on the account is no help here: a sign-in only shares
-- it. The wait comes before the insert, because a statement that inserts may hold other rows by its end.
create function end_oldest_sessions() returns trigger language plpgsql as $$
declare
    beyond uuid[];
    ended  uuid[];
begin
    if tg_when = 'BEFORE' then
        perform pg_advisory_xact_lock(hashtextextended(new.user_id::text, 34));
        return new;
    end if;
    with recursive line as (
             select sessions.id, sessions.id as sign_in
               from sessions
              where sessions.user_id = new.user_id and sessions.parent_id is null and sessions.revoked_at is null
          union all
             select sessions.id, line.sign_in from line join sessions on sessions.parent_id = line.id where sessions.revoked_at is null
         ),
         limits (service, most) as (
             values (null::uuid, new.most), (new.service_id, new.most_in_service)
         ),
         open as (
             select limits.service, limits.most, sessions.id, line.sign_in, sessions.created_at
               from limits
              cross join line
               join sessions on sessions.id = line.id
               left join organizations on organizations.id = sessions.organization_id
               left join services on services.id = sessions.service_id
              where limits.most is not null
                and sessions.organization_id is not distinct from new.organization_id
                and (limits.service is null or sessions.service_id = limits.service)
                and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
                and sessions.impersonator_id is null and sessions.exchanged_from is null
                -- What a rule has ended already takes nobody's place.
                and coalesce(
                        sessions.last_seen_at
                            + least(organizations.session_idle_minutes, services.session_idle_minutes) * interval '1 minute' > now(),
                        true
                    )
                and coalesce(
                        coalesce(sessions.proved_at, sessions.created_at)
                            + least(organizations.session_hours, services.session_lifetime_hours) * interval '1 hour' > now(),
                        true
                    )
         ),
         ranked as (
             select service, most, sign_in,
                    row_number() over (
                        partition by service order by bool_or(id = new.id) desc, max(created_at) desc, sign_in desc
                    ) as place
               from open
              group by service, most, sign_in
         )
    select array_agg(distinct open.id)
      into beyond
      from ranked
      join open on open.sign_in = ranked.sign_in and open.service is not distinct from ranked.service
     where ranked.place > ranked.most;
    if beyond is null then
        return null;
    end if;
    with recursive ending as (
             select sessions.id, sessions.parent_id as above
               from sessions
              where sessions.id = any (beyond) and (sessions.parent_id is null or sessions.parent_id <> all (beyond))
          union
             select sessions.id, ending.above
               from ending
               join sessions on sessions.parent_id = ending.id
              where new.organization_id is null or sessions.organization_id = new.organization_id
         ),
         held as (
             select sessions.id, ending.id is not null as ends, above.above
               from sessions
               left join ending on ending.id = sessions.id
               left join ending as above on above.id = sessions.parent_id and above.above <> all (array(select ending.id from ending))
              where sessions.id in (
                        select ending.id from ending
                         union all
                        select children.id from ending join sessions as children on children.parent_id = ending.id
                    )
                and sessions.revoked_at is null
              order by sessions.id                     -- the same order everywhere, against deadlocks
                for no key update of sessions
         ),
         goes_on as (
             update sessions set parent_id = coalesce(held.above, sessions.parent_id) from held where sessions.id = held.id and not held.ends
         ),
         revoked as (
             update sessions set revoked_at = now() from held where sessions.id = held.id and held.ends returning sessions.id
         )
    select array_agg(id order by id) into ended from revoked;
    if ended is not null then
        insert into jobs (id, kind, payload, run_at)
        values ((lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '-7' || substr(gen_random_uuid()::text, 16))::uuid,
                'sessions.displaced', json_build_object('by', new.id, 'sessions', ended), now());
        perform pg_notify('postern', 'sessions.displaced');
    end if;
    return null;
end $$;

create trigger sessions_in_turn before insert on sessions for each row
    when (new.most is not null or new.most_in_service is not null) execute function end_oldest_sessions();
create trigger sessions_at_most after insert on sessions for each row
    when (new.most is not null or new.most_in_service is not null) execute function end_oldest_sessions();
