-- additive
-- Teams of an organization's members. A team may carry a role of the organization, and roles of its services.

create table teams (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    slug        text        not null,                    -- never changes, and is never used again
    name        text        not null,
    source      text        not null default 'own' check (source in ('own', 'directory')),
    external_id text,                                    -- by which its directory knows it
    role        text        check (role <> 'owner'),     -- the slug of the organization's role that its members have by it; null: none
    role_id     uuid        references roles,            -- null: the role is a built-in one, or there is none
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    unique (org_id, slug),
    unique (id, org_id)
);
create unique index teams_of_directory on teams (org_id, external_id) where external_id is not null;
create index teams_by_source on teams (org_id, source, id);
create index teams_of_role on teams (role_id) where role_id is not null;

-- Leaving the organization leaves its teams.
create table team_members (
    team_id  uuid        not null,
    org_id   uuid        not null,
    user_id  uuid        not null,
    added_at timestamptz not null,
    primary key (team_id, org_id, user_id),
    foreign key (team_id, org_id) references teams (id, org_id) on delete cascade,
    foreign key (org_id, user_id) references memberships (org_id, user_id) on delete cascade
);
create index team_members_of_user on team_members (user_id, org_id);

-- Slugs that were used stay used: an application may still know their meaning.
create table former_slugs (
    org_id     uuid not null references all_organizations on delete cascade,
    service_id uuid references all_services on delete cascade,
    noun       text not null check (noun in ('team', 'service_role', 'permission')),
    slug       text not null
);
create unique index former_slugs_of_organization on former_slugs (org_id, noun, slug) where service_id is null;
create index former_slugs_in_organization on former_slugs (org_id);
create unique index former_slugs_of_service on former_slugs (service_id, noun, slug) where service_id is not null;

-- What the groups of an organization's directory are, besides the organization's own.
alter table scim_groups add column groups text not null default 'organization' check (groups in ('organization', 'teams'));
