-- additive
-- A tie between a person and an organization is the person's own from the moment that they made or confirmed it. Everything else is listed.
-- A process of the release before writes no moment, so what it adds is listed until the person confirms it.

alter table memberships add column own_since timestamptz;

update memberships
   set own_since = memberships.created_at
  from all_organizations as organizations
 where organizations.id = memberships.org_id
   and (memberships.came_by in ('founded', 'accepted') or organizations.owner_user_id = memberships.user_id);

alter table service_users add column own_since timestamptz;

-- Nothing follows from a sign-in: a service could bring that about without the person.
update service_users
   set own_since = consents.granted_at
  from consents
 where consents.service_id = service_users.service_id and consents.user_id = service_users.user_id;
