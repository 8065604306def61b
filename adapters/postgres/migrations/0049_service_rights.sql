-- additive
-- What a service's roles permit in it, and who holds them. An assignment is a relation.

create table permissions (
    service_id  uuid        not null references all_services on delete cascade,
    key         text        not null check (key ~ '^[a-z0-9_.:-]{1,80}$'),
    description text        not null default '',
    created_at  timestamptz not null,
    primary key (service_id, key)
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
--     user U, the holders of role R, those with the built-in role B, or the members of team T    are holder of    service role S
alter table relations add column team_id uuid references teams on delete cascade;
alter table relations add column built_in_role text check (built_in_role in ('owner', 'admin', 'member'));
alter table relations drop constraint relations_one_subject;
alter table relations add constraint relations_one_subject check (num_nonnulls(user_id, role_id, team_id, built_in_role) = 1);
alter table relations drop constraint relations_object_type_check;
alter table relations add constraint relations_object_type_check check (object_type in ('organization', 'role', 'service_role'));
create unique index relations_of_team on relations (team_id, object_id, relation) where team_id is not null;
create unique index relations_of_built_in_role on relations (organization_id, built_in_role, object_id, relation) where built_in_role is not null;

alter table all_services drop constraint all_services_sign_in_policy_check;
alter table all_services add constraint all_services_sign_in_policy_check check (sign_in_policy in ('anyone', 'members', 'assigned'));
