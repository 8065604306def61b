-- additive
-- What a service's roles permit in it, and who holds them. An assignment is a relation.

create table permissions (
    id          uuid        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    key         text        not null check (key ~ '^[a-z0-9_.:-]{1,80}$'),
    description text        not null default '',
    created_at  timestamptz not null,
    unique (service_id, key)
);

create table service_roles (
    id                 uuid        primary key,
    org_id             uuid        not null references all_organizations on delete cascade,
    service_id         uuid        not null references all_services on delete cascade,
    slug               text        not null,
    name               text        not null,
    description        text        not null default '',
    permissions        text[]      not null default '{}',
    given_to_everybody boolean     not null default false,   -- whoever signs in to the service holds it
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    unique (service_id, slug)
);
create index service_roles_in_organization on service_roles (org_id);

-- Who may do what: a subject (a user, the holders of a role, the members of a team) stands in a relation to an object.
--     user U, the holders of role R, those with the built-in role B, or the members of team T    are holder of    role of a service S
alter table relations add column team_id uuid references teams on delete cascade;
alter table relations add column built_in_role text check (built_in_role in ('owner', 'admin', 'member'));
alter table relations add column id uuid unique;                                          -- of an assignment; null: a relation of another kind
alter table relations add column service_id uuid references all_services on delete cascade;  -- of the role that is assigned
alter table relations add column created_at timestamptz;
alter table relations drop constraint relations_one_subject;
alter table relations add constraint relations_one_subject check (num_nonnulls(user_id, role_id, team_id, built_in_role) = 1);
alter table relations drop constraint relations_object_type_check;
alter table relations add constraint relations_object_type_check check (object_type in ('organization', 'role', 'service_role'));
alter table relations add constraint relations_assignment check (
    num_nonnulls(id, service_id, created_at) = case object_type when 'service_role' then 3 else 0 end
);
create unique index relations_of_team on relations (team_id, object_id, relation) where team_id is not null;
create unique index relations_of_built_in_role on relations (organization_id, built_in_role, object_id, relation) where built_in_role is not null;
create index relations_of_service on relations (service_id, id) where service_id is not null;
create index relations_of_service_role on relations (object_id, id) where service_id is not null;

-- What gives a person roles of a service: the person's own assignments, and those of the organization's roles and of the teams that the person
-- has. A role of the organization also comes by a team that carries it. A function and not a part of each statement, since PostgreSQL sets up
-- all parts of a statement at each run, and this one is needed by services alone that ask for a role. It is volatile, so it sees what others
-- have committed while its statement waited for a lock.
create function held_service_roles(person uuid, organization uuid, service uuid) returns setof relations
    language plpgsql volatile as $$
begin
    return query
      with carried as (
               select memberships.role, memberships.role_id
                 from memberships
                where memberships.org_id = organization and memberships.user_id = person
                union
               select teams.role, teams.role_id
                 from team_members
                 join teams on teams.id = team_members.team_id
                where team_members.user_id = person and team_members.org_id = organization and teams.role is not null
           )
    select relations.*
      from relations
     where relations.user_id = person and relations.organization_id = organization and relations.service_id = service
     union all
    select relations.*
      from carried
      join relations on relations.role_id = carried.role_id and relations.service_id = service
     union all
    select relations.*
      from carried
      join relations on relations.organization_id = organization and relations.built_in_role = carried.role and relations.service_id = service
     where carried.role_id is null
     union all
    select relations.*
      from team_members
      join relations on relations.team_id = team_members.team_id and relations.service_id = service
     where team_members.user_id = person and team_members.org_id = organization;
end $$;

-- Whether there is any. A value is set up in no time, a set of rows is not.
create function holds_service_role(person uuid, organization uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (select from held_service_roles(person, organization, service));
end $$;

alter table all_services drop constraint all_services_sign_in_policy_check;
alter table all_services add constraint all_services_sign_in_policy_check check (sign_in_policy in ('anyone', 'members', 'assigned'));
