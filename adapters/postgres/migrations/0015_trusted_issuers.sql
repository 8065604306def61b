-- additive
--
-- Trusted issuers: whose signed tokens stand in place of a secret.

create table trusted_issuers (
    id              uuid        primary key,
    org_id          uuid        not null references all_organizations on delete cascade,
    service_id      uuid        references all_services on delete cascade,
    key_id          uuid        references management_keys on delete cascade,
    name            text        not null check (char_length(name) between 1 and 100),
    issuer          text        not null check (length(issuer) <= 500),           -- compared byte by byte
    audience        text        not null check (length(audience) <= 500),
    jwks_uri        text,                                                         -- where the issuer publishes its keys
    jwks            jsonb,                                                        -- or the keys themselves
    subject_pattern text        not null check (char_length(subject_pattern) between 1 and 500),
    claims          jsonb       not null default '{}',                            -- {name: value} that the token must have
    last_used_at    timestamptz,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    unique (org_id, name),
    constraint trusted_issuers_for_one check (num_nonnulls(service_id, key_id) = 1),
    constraint trusted_issuers_keys check (num_nonnulls(jwks_uri, jwks) = 1)
);
create index trusted_issuers_of_service on trusted_issuers (service_id, id) where service_id is not null;
create index trusted_issuers_of_key on trusted_issuers (key_id, id) where key_id is not null;
