-- additive
--
-- A yes from afar (OpenID CIBA): an application asks for a person who is elsewhere, and polls until the person has answered. A process of the
-- release before knows neither the table nor the rule, and refuses the grant.

alter table all_organizations add column afar_since timestamptz;        -- since when its applications may ask; null: they may not

-- Requests of minutes: a crash of the database forgets them, and the applications ask again. The janitor removes expired ones.
create unlogged table afar_requests (
    id              uuid        primary key,
    digest          bytea       not null unique,
    service_id      uuid        not null references all_services on delete cascade,
    user_id         uuid        references users on delete cascade,      -- null: of nobody who may answer
    scopes          text[]      not null,                                -- of ours
    resource_id     uuid,                                                -- the API, if one is asked for
    identifier      text,
    foreign_scopes  text[]      not null,                                -- of the API
    binding_message text,                                                -- the application's own words
    key_thumbprint  text,                                                -- of the key whose proof the request brought
    state           text        not null default 'pending' check (state in ('pending', 'allowed', 'refused', 'consumed')),
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    poll_interval   integer     not null,                                -- in seconds
    polled_at       timestamptz,
    is_slowed       boolean     not null default false,                  -- the last poll came too soon
    session_id      uuid,                                                -- in which the person said yes
    audiences       jsonb,                                               -- what the person has allowed at the API
    answered_at      timestamptz,
    constraint afar_requests_decided check (
        (state in ('allowed', 'consumed')) = (session_id is not null) and (state = 'pending') = (answered_at is null)
    )
);
create index afar_requests_of_service on afar_requests (service_id, id);
create index afar_requests_of_user    on afar_requests (user_id, id) where user_id is not null;
create index afar_requests_expiry     on afar_requests (expires_at);

-- "Never again from this one": the person hears of no further request of the application.
create table afar_blocks (
    id         uuid        primary key default gen_random_uuid(),
    user_id    uuid        not null references users on delete cascade,
    service_id uuid        not null references all_services on delete cascade,
    blocked_at timestamptz not null,
    unique (user_id, service_id)
);
create index afar_blocks_of_service on afar_blocks (service_id, id);
