-- additive
--
-- APIs of organizations that tokens are made for. The columns of the proof are those of `domains`, and the same statements write them.

create table resource_servers (
    id                uuid        primary key,
    org_id            uuid        not null references all_organizations on delete cascade,
    identifier        text        not null check (length(identifier) <= 500),  -- compared byte by byte
    domain            text        not null,                 -- the identifier's host, which the token proves
    name              text        not null,
    service_id        uuid        references all_services on delete set null,  -- the service that stands for the API
    token_lifetime    integer     check (token_lifetime between 60 and 86400),  -- in seconds; null: the installation's
    admits            text        not null check (admits in ('all', 'named')),
    access_token_alg  text        not null default 'ES256' check (access_token_alg in ('RS256', 'ES256')),
    scopes            jsonb       not null default '[]',    -- [{name, description, permission}]
    token             text        not null,                 -- what proves the host is published
    verified_at       timestamptz,
    checked_at        timestamptz,
    next_check_at     timestamptz,
    misses            smallint    not null default 0,       -- checks in a row that found no proof
    approval_asked_at timestamptz,
    approved_at       timestamptz,                          -- by a platform owner, in place of a proof
    settles_at        timestamptz,                          -- until then, tokens of the organization that had the identifier may live
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    unique (org_id, identifier),
    constraint resource_servers_checked check ((verified_at is null) = (next_check_at is null)),
    constraint resource_servers_one_reason check (verified_at is null or approved_at is null)
);
-- Tokens for an identifier are made for one organization. Claims that wait do not count.
create unique index resource_servers_active on resource_servers (identifier) where verified_at is not null or approved_at is not null;
create index resource_servers_due on resource_servers (next_check_at) where next_check_at is not null;
create index resource_servers_of_host on resource_servers (domain) where verified_at is not null or approved_at is not null;
create index resource_servers_of_service on resource_servers (service_id, id) where service_id is not null;
create index resource_servers_asking on resource_servers (approval_asked_at)
    where approval_asked_at is not null and verified_at is null and approved_at is null;

create index resource_servers_approved on resource_servers (approved_at) where approved_at is not null;

-- The services that a resource server names, because it does not admit all of the organization.
create table resource_admissions (
    id          uuid primary key,
    resource_id uuid not null references resource_servers on delete cascade,
    service_id  uuid not null references all_services on delete cascade,
    unique (resource_id, service_id)
);
create index resource_admissions_of_service on resource_admissions (service_id, id);

-- Every identifier for which tokens were ever made, and for whom. The row stays when the resource server or the organization goes: programs
-- that trust the identifier may live longer.
create table resource_identifiers (
    key       text        primary key,                      -- in small letters, without slashes at its end: the same for what looks alike
    org_id    uuid        not null,                         -- without a foreign key: it outlives the organization
    is_proved boolean     not null,                         -- false: by a platform owner's approval alone
    given_at  timestamptz not null
);
