-- additive
-- What directories provision: their tokens, the people they brought, the group, and the last exchanges with them. While a process of the
-- release before still runs, somebody that it removes from an organization is missing from the directory's list until this table is told.

create table scim_tokens (
    id           uuid        primary key,
    org_id       uuid        not null references all_organizations on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_by   uuid        not null,
    created_at   timestamptz not null
) with (fillfactor = 80);
create index scim_tokens_of_organization on scim_tokens (org_id, created_at desc, id desc);

create table provisioned_users (
    org_id         uuid        not null references all_organizations on delete cascade,
    user_id        uuid        not null references users on delete cascade,
    external_id    text,
    work_email     text,
    formatted_name text,
    given_name     text,
    family_name    text,
    display_name   text,
    is_member      boolean     not null,
    is_deactivated boolean     not null default false,
    in_group       boolean     not null default true,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    primary key (org_id, user_id)
);
create index provisioned_users_of_user  on provisioned_users (user_id);
create index provisioned_users_absent   on provisioned_users (org_id, user_id) where not is_member;
create index provisioned_users_external on provisioned_users (org_id, external_id) where external_id is not null;

create table scim_groups (
    org_id      uuid        primary key references all_organizations on delete cascade,
    external_id text,
    updated_at  timestamptz not null
);

create table scim_exchanges (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    token_id    uuid        not null,
    token_name  text        not null,
    method      text        not null,
    path        text        not null,
    query       text,
    request     jsonb,
    status      smallint    not null,
    scim_type   text,
    reason      text,
    occurred_at timestamptz not null
);
create index scim_exchanges_newest on scim_exchanges (org_id, id desc);
create index scim_exchanges_oldest on scim_exchanges (occurred_at);

alter table users add column origin_org_id uuid references all_organizations on delete set null;
create index users_of_origin_organization on users (origin_org_id, id) where origin_org_id is not null;
alter table users add column deactivated_by_org_id uuid references all_organizations on delete set null;
create index users_deactivated_by_organization on users (deactivated_by_org_id, id) where deactivated_by_org_id is not null;
