-- additive
-- The SAML identity provider: one for each service that has a configuration.

create table saml_configurations (
    service_id             uuid        primary key references all_services on delete cascade,
    enabled                boolean     not null,
    entity_id              text,
    acs_url                text,
    slo_url                text,
    slo_response_url       text,
    slo_binding            text        not null default 'post' check (slo_binding in ('post', 'redirect')),
    name_id_format         text,
    attribute_mapping      jsonb,
    sign_assertions        boolean     not null default true,
    sign_response          boolean     not null default true,
    require_signed_requests boolean    not null default false,
    acs_endpoints          jsonb       not null default '[]',
    signing_certificates   text[]      not null default '{}',
    encryption_certificate text,
    metadata_uploaded_at   timestamptz,
    metadata_fetched_at    timestamptz,
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    constraint saml_configurations_sign check (sign_assertions or sign_response),
    constraint saml_configurations_whole check (not enabled or (entity_id is not null and acs_url is not null))
);

create table saml_certificates (
    id                 uuid        primary key,
    service_id         uuid        not null references all_services on delete cascade,
    state              text        not null check (state in ('active', 'next')),
    certificate        text        not null,
    sealed_private_key bytea       not null,
    valid_from         timestamptz not null,
    valid_until        timestamptz not null,
    created_at         timestamptz not null,
    last_signed_at     timestamptz,
    warned_days        smallint
);
create unique index saml_certificates_one on saml_certificates (service_id, state);
create index saml_certificates_of_service on saml_certificates (service_id, id);
create index saml_certificates_expiry     on saml_certificates (valid_until);

create table saml_requests (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    digest     bytea       not null,
    expires_at timestamptz not null,
    unique (service_id, digest)
);
create index saml_requests_of_service on saml_requests (service_id, id);
create index saml_requests_expiry     on saml_requests (expires_at);

create table saml_sessions (
    id             uuid        primary key,
    session_id     uuid        not null references sessions on delete cascade,
    service_id     uuid        not null references all_services on delete cascade,
    name_id        text        not null,
    name_id_format text        not null,
    created_at     timestamptz not null,
    unique (session_id, service_id)
);
create index saml_sessions_of_service on saml_sessions (service_id, id);
create index saml_sessions_by_name    on saml_sessions (service_id, name_id);

create table saml_exchanges (
    id             uuid        primary key,
    service_id     uuid        not null references all_services on delete cascade,
    kind           text        not null,
    binding        text        not null,
    succeeded      boolean     not null,
    status         text        not null,
    reason         text        not null,
    advice         text        not null,
    message_id     text        not null,
    in_response_to text        not null,
    certificate_id uuid,
    created_at     timestamptz not null
);
create index saml_exchanges_of_service on saml_exchanges (service_id, id);
create index saml_exchanges_oldest     on saml_exchanges (created_at);

alter table flows drop constraint flows_purpose_check;
alter table flows add constraint flows_purpose_check check (purpose in ('account', 'authorize', 'device', 'saml', 'saml_logout'));
