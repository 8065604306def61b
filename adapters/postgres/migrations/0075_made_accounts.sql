-- additive, in steps
-- Who made the accounts that are there. Until now only directories were remembered, and forgotten with the first proof of the address. A
-- directory made an account as long as the membership goes on that came with it: a deactivation would have ended it. A key makes an account
-- and its place in the service in one transaction, an own provider the account and the identity.

-- step: batches of users by id
update users
   set origin_org_id = made.org_id
  from (
           select people.id,
                  coalesce(
                      (
                          select memberships.org_id
                            from memberships
                            join provisioned_users as known on known.org_id = memberships.org_id and known.user_id = memberships.user_id
                           where memberships.user_id = people.id and memberships.came_by = 'created'
                             and memberships.created_at = people.created_at and known.created_at = people.created_at
                           limit 1
                      ),
                      (
                          select service_users.org_id
                            from service_users
                           where service_users.user_id = people.id and service_users.service_id = people.origin_service_id
                             and service_users.created_at = people.created_at
                      ),
                      (
                          select upstream_providers.org_id
                            from identities
                            join upstream_providers on upstream_providers.id = identities.upstream_provider_id
                           where identities.user_id = people.id
                             and identities.linked_at between people.created_at and people.created_at + interval '1 second'
                           limit 1
                      )
                  ) as org_id
             from users as people
            where people.id between %(first)s and %(last)s and people.origin_org_id is null and people.anonymized_at is null
       ) as made
 where users.id = made.id and made.org_id is not null;

-- step: batches of users by id
insert into held_accounts (user_id, held_since)
select users.id, now()
  from users
 where users.id between %(first)s and %(last)s and users.origin_org_id is not null
   and (
           users.is_platform_owner
        or exists (
               select from memberships
                where memberships.user_id = users.id and memberships.org_id <> users.origin_org_id and memberships.own_since is not null
           )
        or exists (
               select from service_users
                where service_users.user_id = users.id and service_users.org_id <> users.origin_org_id
                  and (service_users.own_since is not null or service_users.first_login_at is not null)
           )
       )
    on conflict (user_id) do nothing;
