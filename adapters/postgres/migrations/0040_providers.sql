-- additive
--
-- Further providers of the installation, besides the three. A process of the release before knows none: turn the first one on when its last
-- process has ended.

create table further_providers (
    id                   uuid        primary key,
    key                  text        not null constraint further_providers_key unique,  -- the short name in addresses and identities
    preset               text        not null,
    name                 text        not null,
    settings             jsonb       not null,
    client_id            text        not null,
    sealed_client_secret bytea       not null,
    enabled              boolean     not null,
    position             integer     not null,
    organizations        uuid[],                              -- on whose pages it is offered; null: everywhere
    logo_digest          text,
    logo_media_type      text,
    logo                 bytea,
    secret_set_at        timestamptz not null,
    created_at           timestamptz not null,
    updated_at           timestamptz not null
);

-- The word of a further provider about somebody who is not connected, until a mailed code shows an address of theirs.
create table newcomers (
    flow_id     uuid        primary key references flows on delete cascade,
    provider    text        not null,
    sealed_word bytea       not null,
    email       text        not null default '',             -- the address that the last code went to
    code_digest bytea,
    codes       integer     not null default 0,
    tries       integer     not null default 0,
    created_at  timestamptz not null,
    expires_at  timestamptz not null
);
create index newcomers_expired on newcomers (expires_at);

-- Answers that a provider has sent by a form, without our cookies, until their browser comes back with a code of ours.
create table posted_answers (
    id            uuid        primary key,
    code_digest   bytea       not null constraint posted_answers_code unique,
    provider      text        not null,
    state_digest  bytea       not null constraint posted_answers_state unique,  -- of the state that the answer brings; one waits for each
    sealed_answer bytea       not null,
    expires_at    timestamptz not null
);
create index posted_answers_expired on posted_answers (expires_at);

-- A platform owner tests a provider: nobody signs in, and nothing is connected.
alter table oauth_states add column tests boolean not null default false;

-- A key is a word of the three, a short name, or the id of an organization's own.
alter table identities drop constraint identities_provider;
alter table identities add constraint identities_provider
    check (upstream_provider_id is null or provider = upstream_provider_id::text) not valid;
