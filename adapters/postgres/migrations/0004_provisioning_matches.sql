-- additive

-- Whom of theirs is whom of ours: docs/decisions/0244-whom-a-match-may-meet.md.

-- Attributes for which there has been no value here since a person was made or matched there: what stands there stays.
alter table provisioned_people add column kept_there text[] not null default '{}';

-- An account there with another `externalId`, which an owner lets a person take over.
alter table provisioning_run_people add column former_external_id text;
alter table provisioning_runs add column adoptable integer not null default 0;
alter table provisioning_runs add column adopts    boolean not null default false;

-- Of whoever an organization merely lists, it marks what it may know itself: the address, its own provider's word, its own directory's
-- deactivation, and what the person lets the application read. A proof of the address, or a name that somebody chooses as they register,
-- would tell it that the account has an owner.
create or replace function mark_users_there() returns trigger language plpgsql as $$
begin
    insert into provisioning_marks (connection_id, user_id, marked_at)
    select connections.id, new.id, now()
      from memberships
      join provisioning_connections as connections on connections.org_id = memberships.org_id and connections.state = 'active'
     where memberships.user_id = new.id
       and (
               memberships.own_since is not null
            or new.email is distinct from old.email
            or (
                   new.address_vouched_by is distinct from old.address_vouched_by
               and split_part(new.address_vouched_by, '/', 1) = memberships.org_id::text
               )
            or (
                   coalesce(new.deactivated_at is not null and new.deactivated_by_org_id = memberships.org_id, false)
                <> coalesce(old.deactivated_at is not null and old.deactivated_by_org_id = memberships.org_id, false)
               )
            or (
                   (
                       new.name is distinct from old.name
                    or new.given_name is distinct from old.given_name
                    or new.family_name is distinct from old.family_name
                    or new.username is distinct from old.username
                    or new.zoneinfo is distinct from old.zoneinfo
                    or new.language is distinct from old.language
                   )
               and exists (
                       select
                         from consents
                        where consents.service_id = connections.service_id and consents.user_id = new.id
                          and 'profile' = any (consents.scopes)
                   )
               )
           )
     order by connections.id
        on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    return null;
end $$;

create or replace function mark_values_there() returns trigger language plpgsql as $$
begin
    if new.org_id is null then
        insert into provisioning_marks (connection_id, user_id, marked_at)
        select connections.id, new.user_id, now()
          from memberships
          join provisioning_connections as connections on connections.org_id = memberships.org_id and connections.state = 'active'
         where memberships.user_id = new.user_id
           and (
                   memberships.own_since is not null
                or exists (
                       select
                         from consents
                        where consents.service_id = connections.service_id and consents.user_id = new.user_id and consents.scopes <> '{}'
                   )
               )
         order by connections.id
            on conflict (connection_id, user_id) do update set marked_at = excluded.marked_at;
    else
        perform mark_person_there(new.user_id, new.org_id);
    end if;
    return null;
end $$;

-- The two triggers above were all that called it.
drop function mark_person_everywhere(uuid);
