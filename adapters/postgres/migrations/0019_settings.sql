-- additive
-- What an organization sets for itself: its mail server, its logo, its domain, and its credentials at providers.

alter table all_organizations add column logo_digest text;

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest
      from all_organizations
     where deleted_at is null;

-- Where an organization's own mails are handed in. It has a new id with each change, so that what an earlier one did is not told of it.
create table mail_servers (
    id              uuid        primary key,
    org_id          uuid        not null unique references all_organizations on delete cascade,
    host            text        not null,
    port            integer     not null check (port between 1 and 65535),
    username        text        not null,
    sealed_password bytea       not null,
    from_email      text        not null,
    from_name       text,
    failing_since   timestamptz,
    rests_until     timestamptz,
    fallen_back_at  timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    constraint mail_servers_fallen check (fallen_back_at is null or failing_since is not null)
);

-- What was fetched from where `logo_url` points. Pages show this, and nothing of another's address.
create table logos (
    id         uuid        primary key,
    org_id     uuid        not null unique references all_organizations on delete cascade,
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null
);
create index logos_by_digest on logos (digest);

-- The domain that an organization says is its own. It has a new id with each domain, as the mail server.
create table domains (
    id            uuid        primary key,
    org_id        uuid        not null unique references all_organizations on delete cascade,
    domain        text        not null,
    token         text        not null,
    verified_at   timestamptz,
    checked_at    timestamptz,
    next_check_at timestamptz,
    misses        smallint    not null default 0,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    constraint domains_checked check ((verified_at is null) = (next_check_at is null))
);
create unique index domains_verified on domains (domain) where verified_at is not null;
create index domains_due on domains (next_check_at) where next_check_at is not null;

-- What an organization's sign-in through a provider is done with.
create table oauth_credentials (
    id                   uuid        primary key,
    org_id               uuid        not null references all_organizations on delete cascade,
    provider             text        not null check (provider in ('codehost', 'websuite', 'officesuite')),
    client_id            text        not null,
    sealed_client_secret bytea       not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    unique (org_id, provider)
);
