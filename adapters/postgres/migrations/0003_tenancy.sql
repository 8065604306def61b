-- Tenancy: organizations with their people, roles and invitations, the services they own, and an audit log that shows what was taken from it.
-- Nothing of before this was released, so it changes in place what it changes.

create table tiers (
    id                   uuid        primary key,
    name                 text        not null unique,
    display_name         text        not null,
    default_max_services integer     not null check (default_max_services >= 0),
    default_max_users    integer     not null check (default_max_users >= 0),
    price_cents          integer     not null check (price_cents >= 0),
    created_at           timestamptz not null default now()
);
insert into tiers (id, name, display_name, default_max_services, default_max_users, price_cents)
values ('01900000-0000-7000-8000-000000000001', 'free',         'Free',          3,  100,    0),
       ('01900000-0000-7000-8000-000000000002', 'professional', 'Professional', 10, 1000, 4900);

-- An organization that is deleted is gone from every answer at once, while its rows go in batches: all statements read the view.
alter table organizations rename to all_organizations;
alter table all_organizations rename constraint organizations_pkey to all_organizations_pkey;
alter table all_organizations rename constraint organizations_status_check to all_organizations_status_check;
alter table all_organizations rename constraint organizations_device_trust_days_check to all_organizations_device_trust_days_check;
alter table all_organizations drop constraint organizations_slug_key;
alter table all_organizations
    add column tier_id           uuid        not null default '01900000-0000-7000-8000-000000000001' references tiers,
    add column owner_user_id     uuid        references users on delete set null,
    add column max_services      integer     check (max_services >= 0),
    add column max_users         integer     check (max_users >= 0),
    add column approved_at       timestamptz,
    add column approved_by       uuid,                   -- kept when the user is gone
    add column rejected_at       timestamptz,
    add column rejection_reason  text,
    add column suspended_at      timestamptz,
    add column suspension_reason text,
    add column member_count      integer     not null default 0,
    add column deleted_at        timestamptz;            -- its rows are on their way out
update all_organizations
   set member_count = (select count(*) from memberships where org_id = all_organizations.id),
       owner_user_id = (select user_id from memberships where org_id = all_organizations.id and role = 'owner' limit 1);
create unique index organizations_slug on all_organizations (slug) where deleted_at is null;
create index organizations_newest on all_organizations (created_at desc, id desc) where deleted_at is null;
create index organizations_by_status on all_organizations (status, created_at desc, id desc) include (tier_id) where deleted_at is null;
create index organizations_by_tier on all_organizations (tier_id, created_at desc, id desc) include (status) where deleted_at is null;
create index organizations_of_owner on all_organizations (owner_user_id) where owner_user_id is not null;
create index organizations_going on all_organizations (deleted_at) where deleted_at is not null;

create view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at
      from all_organizations
     where deleted_at is null;

-- An organization's own roles. What they permit stands in `relations`.
create table roles (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    slug        text        not null,
    name        text        not null,
    description text        not null default '',
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    unique (org_id, slug)
);

alter table memberships add column role_id uuid references roles;      -- null: the role is a built-in one
create index memberships_oldest on memberships (org_id, created_at, id);
create index memberships_by_role on memberships (org_id, role, created_at, id);
create index memberships_of_role on memberships (role_id) where role_id is not null;

-- How many members there are is asked by every list and every acceptance, and must not cost a count of them.
create function count_members() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        update all_organizations set member_count = member_count + changed.members
          from (select org_id, count(*) as members from rows group by org_id) as changed
         where all_organizations.id = changed.org_id;
    else
        update all_organizations set member_count = member_count - changed.members
          from (select org_id, count(*) as members from rows group by org_id) as changed
         where all_organizations.id = changed.org_id and all_organizations.deleted_at is null;
    end if;
    return null;
end $$;
create trigger members_added after insert on memberships referencing new table as rows for each statement execute function count_members();
create trigger members_removed after delete on memberships referencing old table as rows for each statement execute function count_members();

-- Who may do what: a subject (a user, or the holders of a role) stands in a relation to an object.
--     user U    is owner, admin or member of    organization O
--     user U    is holder of                    role R
--     role R's holders have <capability> in     organization O
create table relations (
    organization_id uuid not null references all_organizations on delete cascade,  -- whose rows they are
    user_id         uuid references users on delete cascade,
    role_id         uuid references roles on delete cascade,
    relation        text not null,
    object_type     text not null check (object_type in ('organization', 'role')),
    object_id       uuid not null,
    constraint relations_one_subject check ((user_id is null) <> (role_id is null))
);
create unique index relations_of_user on relations (user_id, organization_id, object_id, relation) where user_id is not null;
create unique index relations_of_role on relations (role_id, object_id, relation) where role_id is not null;
create index relations_to_object on relations (organization_id, object_id, relation);
insert into relations (organization_id, user_id, relation, object_type, object_id)
select org_id, user_id, role, 'organization', org_id from memberships;

create table invitations (
    id           uuid        primary key,
    org_id       uuid        not null references all_organizations on delete cascade,
    email        text        not null,
    email_key    text        not null,
    role         text        not null,                   -- its slug
    role_id      uuid        references roles on delete set null,  -- of a role of the organization's own, while there is such a role
    invited_by   uuid        references users on delete set null,
    token_digest bytea       not null unique,
    status       text        not null default 'pending' check (status in ('pending', 'accepted', 'rejected', 'cancelled', 'expired')),
    expires_at   timestamptz not null,
    created_at   timestamptz not null,
    closed_at    timestamptz,
    constraint invitations_closed check ((status = 'pending') = (closed_at is null))
);
create unique index invitations_one_pending on invitations (org_id, email_key) where status = 'pending';
create index invitations_newest    on invitations (org_id, id desc);
create index invitations_by_status on invitations (org_id, status, id desc);
create index invitations_to_email  on invitations (email_key, id desc) where status = 'pending';
create index invitations_of_email  on invitations (org_id, email_key, id desc);
create index invitations_due       on invitations (expires_at) where status = 'pending';
create index invitations_of_role   on invitations (role_id) where role_id is not null;
create index invitations_by_inviter on invitations (invited_by) where invited_by is not null;

create table services (
    id                    uuid        primary key,
    org_id                uuid        not null references all_organizations on delete cascade,
    slug                  text        not null,
    name                  text        not null,
    service_type          text        not null check (service_type in ('web', 'mobile', 'desktop', 'api')),
    client_id             uuid        not null unique,
    codehost_scopes       text[],
    websuite_scopes       text[],
    officesuite_scopes    text[],
    redirect_uris         text[]      not null default '{}',
    device_activation_uri text,
    created_at            timestamptz not null,
    updated_at            timestamptz not null,
    unique (org_id, slug)
);

-- Its end users: whoever signed in to a service, or was made through it.
create table service_users (
    service_id     uuid        not null references services on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    org_id         uuid        not null references all_organizations on delete cascade,
    first_login_at timestamptz,                          -- null: made through the service, and not seen since
    last_login_at  timestamptz,
    created_at     timestamptz not null,
    primary key (service_id, user_id)
);
create index service_users_of_user         on service_users (user_id, org_id);
create index service_users_of_organization on service_users (org_id, user_id desc);

-- A session in a service ends with the service.
alter table sessions
    add constraint sessions_service foreign key (organization_id, service_slug) references services (org_id, slug) on delete cascade;
create index sessions_of_service on sessions (organization_id, service_slug) where service_slug is not null;
-- All of an organization go in batches, in the order of their ids.
drop index sessions_of_organization;
create index sessions_of_organization on sessions (organization_id, id) where organization_id is not null;
create index preauthentications_of_organization on preauthentications (organization_id) where organization_id is not null;

-- The audit log is append-only: nothing of these two tables is ever changed or deleted. What of an entry is about a person stands apart, so
-- that it can be forgotten; the entry keeps a salted digest of it.
create table audit_personal (
    entry_id   uuid  primary key references audit_entries,
    actor_id   uuid,
    address    inet,
    user_agent text,
    details    jsonb not null default '{}',
    salt       bytea not null
);
create index audit_personal_of_actor on audit_personal (actor_id) where actor_id is not null;
insert into audit_personal (entry_id, actor_id, address, user_agent, salt)
select id, actor_id, address, user_agent, uuid_send(gen_random_uuid())
  from audit_entries
 where address is not null or user_agent is not null;
alter table audit_entries drop column address, drop column user_agent, add column personal_digest bytea;
update audit_entries
   set personal_digest = sha256(personal.salt
                                || convert_to(jsonb_build_array(personal.address, personal.user_agent, personal.details)::text, 'UTF8'))
  from audit_personal as personal
 where personal.entry_id = audit_entries.id;

drop index audit_entries_of_organization, audit_entries_of_target;
create index audit_entries_newest    on audit_entries (organization_id, created_at desc, id desc);
create index audit_entries_by_action on audit_entries (organization_id, action, created_at desc, id desc);
create index audit_entries_by_target on audit_entries (organization_id, target_type, created_at desc, id desc);
create index audit_entries_of_target on audit_entries (organization_id, target_type, target_id, created_at desc, id desc);
create index audit_entries_of_actor  on audit_entries (organization_id, actor_id, created_at desc, id desc);
create index audit_entries_failed    on audit_entries (organization_id, created_at desc, id desc) where not success;

-- Entries as they are read: with what is set apart of them, as long as it is not forgotten.
create view audit_log as
    select entries.id, entries.organization_id, entries.actor_id, entries.impersonator_id, entries.action, entries.target_type,
           entries.target_id, personal.address, personal.user_agent, entries.success,
           entries.details || coalesce(personal.details, '{}') as details, entries.created_at
      from audit_entries as entries
      left join audit_personal as personal on personal.entry_id = entries.id;

-- The chain of each organization, and with the nil id that of the platform: each link's digest covers its entry and the link before. Entries
-- wait in `audit_pending` until they are linked, within a second or so, in the order in which they are found there.
create table audit_links (
    chain_id uuid   not null,                            -- the organization; kept when it is gone
    sequence bigint not null check (sequence > 0),
    entry_id uuid   not null unique references audit_entries,
    digest   bytea  not null,
    primary key (chain_id, sequence)
);
-- The clean-up is said so that the table gets short again after a great many have waited: every list counts what waits.
create table audit_pending (
    entry_id uuid primary key references audit_entries,
    chain_id uuid not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_index_cleanup = on);
create index audit_pending_of_chain on audit_pending (chain_id, entry_id desc);
insert into audit_pending (entry_id, chain_id)
select id, coalesce(organization_id, '00000000-0000-0000-0000-000000000000') from audit_entries;

-- What is looked for among everybody's: sign-ins and tries of the last hours.
create index login_events_newest on login_events (created_at);
