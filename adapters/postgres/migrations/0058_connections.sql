-- additive
-- Organizations' own providers have a kind and a state, and speak SAML, too. The tables are small: one row for each provider.

alter table upstream_providers
    alter column client_id drop not null,
    alter column sealed_client_secret drop not null,
    add column kind                    text not null default 'oidc' constraint upstream_providers_kind check (kind in ('oidc', 'saml')),
    add column state                   text not null default 'active'
        constraint upstream_providers_state check (state in ('draft', 'tested', 'active')),
    add column saml                    jsonb,
    add column certificate             text,
    add column sealed_private_key      bytea,
    add column next_certificate        text,
    add column next_sealed_private_key bytea,
    add column secret_set_at           timestamptz,
    add column tested_digest           bytea,
    add column tested_at               timestamptz,
    add column activated_at            timestamptz;

-- So that every statement which asks whether a provider is enabled, also of an older process, leaves drafts out.
alter table upstream_providers
    add constraint upstream_providers_drafts_are_off check (state = 'active' or not enabled),
    add constraint upstream_providers_whole check (
        case kind
            when 'oidc' then client_id is not null and sealed_client_secret is not null and saml is null
            else client_id is null and sealed_client_secret is null and saml is not null and certificate is not null
                 and sealed_private_key is not null
        end
    ),
    add constraint upstream_providers_next check ((next_certificate is null) = (next_sealed_private_key is null));

-- A directory's answer, read and checked, waits for the browser that began the sign-in: for a minute. The row stays as long as the assertion
-- could come again, so that it counts once.
create table connection_answers (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    code_digest          bytea       not null constraint connection_answers_code unique,
    assertion_digest     bytea,
    sealed_answer        bytea,
    waits_until          timestamptz not null,
    expires_at           timestamptz not null,
    constraint connection_answers_once unique (upstream_provider_id, assertion_digest)
);
create index connection_answers_expired on connection_answers (expires_at);
create index connection_answers_of_provider on connection_answers (upstream_provider_id, id);

-- A test of a provider's settings, in one browser. What came is kept sealed for an hour.
create table connection_tests (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    digest               bytea       not null constraint connection_tests_digest unique,
    browser_digest       bytea,
    settings_digest      bytea       not null,
    succeeded            boolean,
    sealed_result        bytea,
    created_at           timestamptz not null,
    begun_at             timestamptz,
    finished_at          timestamptz,
    expires_at           timestamptz not null
);
create index connection_tests_expired on connection_tests (expires_at);
create index connection_tests_of_provider on connection_tests (upstream_provider_id, id);

-- The last fifty exchanges with a provider, for a week.
create table connection_exchanges (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    kind                 text        not null,
    succeeded            boolean     not null,
    fault                text        not null,
    reason               text        not null,
    advice               text        not null,
    checks               jsonb       not null,
    certificate          text        not null,
    message_id           text        not null,
    in_response_to       text        not null,
    created_at           timestamptz not null
);
create index connection_exchanges_of_provider on connection_exchanges (upstream_provider_id, id);
create index connection_exchanges_oldest on connection_exchanges (created_at);

-- Sessions that a directory opened by SAML, so that its sign-out can end them.
create table directory_sessions (
    session_id           uuid        primary key references sessions on delete cascade,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    name_digest          bytea       not null,
    session_index        text        not null,
    context_class        text        not null,
    created_at           timestamptz not null
);
create index directory_sessions_by_name on directory_sessions (upstream_provider_id, name_digest);

alter table preauthentications add column directory_visit jsonb;
