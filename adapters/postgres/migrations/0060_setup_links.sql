-- additive
-- Links with which a customer's administrator sets an organization up without an account, and what they have set up that is not active yet.

create table setup_links (
    id             uuid        primary key,
    org_id         uuid        not null references all_organizations on delete cascade,
    name           text        not null,
    prefix         text        not null unique,
    digest         bytea       not null unique,
    purposes       text[]      not null,
    activates      boolean     not null,
    by_platform    boolean     not null,
    mailed_to      text,
    expires_at     timestamptz not null,
    created_by     uuid        not null,                 -- kept when the user is gone
    created_at     timestamptz not null,
    -- The browser that owns the link. All of it goes when somebody releases the browser.
    browser_digest bytea,
    used_by        text,
    used_at        timestamptz,
    used_from      inet,
    used_with      text,
    finished_at    timestamptz,
    revoked_at     timestamptz,
    constraint setup_links_used check ((browser_digest is null) = (used_at is null) and (browser_digest is null) = (used_by is null))
) with (fillfactor = 80);
create index setup_links_of_organization on setup_links (org_id, created_at desc, id desc);
create index setup_links_due on setup_links (expires_at);

create table setup_drafts (
    id                   uuid        primary key,
    link_id              uuid        not null references setup_links on delete cascade,
    org_id               uuid        not null references all_organizations on delete cascade,
    purpose              text        not null check (purpose in ('domain', 'connection', 'scim', 'siem')),
    subject              text        not null,
    settings             jsonb       not null,
    sealed_credentials   bytea,                          -- of a SIEM; null: none
    digest               bytea       unique,             -- of a directory's token
    upstream_provider_id uuid        references upstream_providers on delete cascade,
    state                text        not null default 'draft' check (state in ('draft', 'tested', 'waiting', 'active')),
    came                 text        not null default '',
    tested_at            timestamptz,
    first_request_at     timestamptz,
    waiting_since        timestamptz,
    activated_at         timestamptz,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    constraint setup_drafts_active check ((state = 'active') = (activated_at is not null))
) with (fillfactor = 80);
create unique index setup_drafts_of_link on setup_drafts (link_id, purpose, subject);
create unique index setup_drafts_single on setup_drafts (link_id, purpose) where purpose <> 'domain';
create index setup_drafts_of_organization on setup_drafts (org_id, id);
create index setup_drafts_of_provider on setup_drafts (upstream_provider_id) where upstream_provider_id is not null;
create index setup_drafts_waiting on setup_drafts (org_id) where state = 'waiting';
