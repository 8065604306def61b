-- additive
-- What an installation or an organization keeps of people besides the address: fields that it has declared, and their values.

create table profile_fields (
    id         uuid        primary key,
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    key        text        not null,
    label      text        not null,
    kind       text        not null check (kind in ('text', 'number', 'boolean', 'date', 'choice', 'list')),
    rule       jsonb       not null default '{}',        -- lengths, bounds, choices
    written_by text[]      not null check (written_by <@ array['person', 'administrator', 'directory', 'service', 'provider']),
    scope      text,                                     -- the scope that tells it to the installation's applications; null: none
    required   boolean     not null default false,
    asked_at   text        check (asked_at in ('registration', 'sign_in')),  -- null: no page asks for it
    position   smallint    not null default 0,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index profile_fields_of_organization on profile_fields (org_id, key) where org_id is not null;
create unique index profile_fields_of_installation on profile_fields (key) where org_id is null;

-- One row for a person and whoever keeps it. Nobody else sees it.
create table profile_values (
    user_id    uuid        not null references users on delete cascade,
    org_id     uuid        references all_organizations on delete cascade,  -- null: the installation's
    values     jsonb       not null check (pg_column_size(values) <= 20000),
    updated_at timestamptz not null
);
create unique index profile_values_of_organization on profile_values (user_id, org_id);
create unique index profile_values_of_installation on profile_values (user_id) where org_id is null;
create index profile_values_in_organization on profile_values (org_id, user_id) where org_id is not null;

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
