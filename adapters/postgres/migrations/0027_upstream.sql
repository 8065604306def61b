-- additive
-- Sign-in through upstream providers: organizations' own ones, the states of those who are on their way, the accounts that are connected,
-- and what services may do there.

-- An organization's own provider. Its issuer and client stay as they are for the people who are connected.
create table upstream_providers (
    id                   uuid        primary key,
    org_id               uuid        not null references all_organizations on delete cascade,
    name                 text        not null,
    issuer               text        not null,
    client_id            text        not null,
    sealed_client_secret bytea       not null,
    scopes               text[]      not null,
    enabled              boolean     not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    constraint upstream_providers_name unique (org_id, name)
);

-- Consumed by being deleted. Those of whom nobody came back expire.
create table oauth_states (
    digest          bytea       primary key,
    browser_digest  bytea       not null,
    provider        text        not null,
    flow_id         uuid        references flows on delete cascade,
    user_id         uuid        references users on delete cascade,
    session_id      uuid,
    client_id       text        not null,
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    constraint oauth_states_purpose check ((flow_id is null) = (user_id is not null and session_id is not null))
);
create index oauth_states_by_flow on oauth_states (flow_id);
create index oauth_states_by_user on oauth_states (user_id);
create index oauth_states_expired on oauth_states (expires_at);

create table identities (
    id                   uuid        primary key,
    user_id              uuid        not null references users on delete cascade,
    provider             text        not null,
    upstream_provider_id uuid        references upstream_providers on delete cascade,
    issuer               text        not null,
    subject              text        not null,
    email                text        not null,
    came_through         uuid,
    linked_at            timestamptz not null,
    constraint identities_provider check ((upstream_provider_id is null) = (provider in ('codehost', 'websuite', 'officesuite'))),
    constraint identities_subject unique (provider, issuer, subject),
    constraint identities_of_user unique (user_id, provider)
);
create index identities_by_provider on identities (upstream_provider_id, id) where upstream_provider_id is not null;

create table identity_grants (
    id                   uuid        primary key,
    identity_id          uuid        not null references identities on delete cascade,
    service_id           uuid        not null references all_services on delete cascade,
    client_id            text        not null,
    scopes               text[]      not null,
    sealed_access_token  bytea,
    sealed_refresh_token bytea,
    expires_at           timestamptz,
    refreshing_until     timestamptz,
    updated_at           timestamptz not null,
    unique (identity_id, service_id)
);
create index identity_grants_by_service on identity_grants (service_id, id);

-- What the log of sign-ins says of the one that the code is exchanged in: a provider that the application led straight to.
alter table authorization_codes add column provider text not null default 'session';
