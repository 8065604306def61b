-- additive
-- What an installation or an organization keeps of people besides the address: fields that it has declared, and their values.

create table all_profile_fields (
    id         uuid        primary key,                  -- values are kept by it, so that a new field of the same key finds none
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    key        text        not null,
    label      text        not null,
    kind       text        not null check (kind in ('text', 'number', 'boolean', 'date', 'choice', 'list')),
    rule       jsonb       not null default '{}',        -- lengths, bounds, choices
    written_by text[]      not null check (written_by <@ array['person', 'administrator', 'directory', 'service', 'provider']),
    scope      text        check (scope is null or org_id is null),  -- the scope that tells it to applications; null: none
    required   boolean     not null default false,
    asked_at   text        check (asked_at in ('registration', 'sign_in')),  -- null: no page asks for it
    position   smallint    not null default 0,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz                               -- its values go in batches, then the row
);
create unique index profile_fields_of_organization on all_profile_fields (org_id, key) where org_id is not null and deleted_at is null;
create unique index profile_fields_of_installation on all_profile_fields (key) where org_id is null and deleted_at is null;
create index profile_fields_in_organization on all_profile_fields (org_id, id);
create index profile_fields_asked on all_profile_fields (org_id) where asked_at is not null and deleted_at is null;
create index profile_fields_deleted on all_profile_fields (deleted_at) where deleted_at is not null;

create view profile_fields as
    select id, org_id, key, label, kind, rule, written_by, scope, required, asked_at, position, created_at, updated_at
      from all_profile_fields
     where deleted_at is null;

-- One row for a person and whoever keeps it. Nobody else sees it.
create table profile_values (
    user_id    uuid        not null references users on delete cascade,
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    values     jsonb       not null default '{}' check (pg_column_size(values) <= 40000),  -- by the ids of the fields
    asked      uuid[]      not null default '{}',        -- the fields that a page has asked for, whatever the answer was
    updated_at timestamptz not null
);
create unique index profile_values_of_organization on profile_values (user_id, org_id);
create unique index profile_values_of_installation on profile_values (user_id) where org_id is null;
create index profile_values_in_organization on profile_values (org_id, user_id) where org_id is not null;

-- What an organization keeps of a person ends with the last tie of the person to it, in whatever way that ends.
create function forget_profile_values() returns trigger language plpgsql as $$
begin
    delete from profile_values
     using (select distinct org_id, user_id from rows) as gone
     where profile_values.org_id = gone.org_id and profile_values.user_id = gone.user_id
       and not exists (select from memberships where memberships.org_id = gone.org_id and memberships.user_id = gone.user_id)
       and not exists (select from service_users where service_users.org_id = gone.org_id and service_users.user_id = gone.user_id)
       and not exists (
               select from provisioned_users where provisioned_users.org_id = gone.org_id and provisioned_users.user_id = gone.user_id
           );
    return null;
end $$;
create trigger members_forgotten after delete on memberships
    referencing old table as rows for each statement execute function forget_profile_values();
create trigger service_users_forgotten after delete on service_users
    referencing old table as rows for each statement execute function forget_profile_values();
create trigger provisioned_users_forgotten after delete on provisioned_users
    referencing old table as rows for each statement execute function forget_profile_values();

-- For applications, by their API.
alter table all_organizations add column metadata jsonb not null default '{}';
alter table all_services add column metadata jsonb not null default '{}';
alter table service_users add column metadata jsonb not null default '{}';

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata
      from all_organizations
     where deleted_at is null;

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata
      from all_services
     where deleted_at is null;

-- Which claims of an organization's own provider go into which of its fields, at each sign-in through the provider.
alter table upstream_providers add column profile_mapping jsonb not null default '{}';
