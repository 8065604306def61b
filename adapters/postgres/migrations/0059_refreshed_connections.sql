-- additive
-- Postern reads the metadata of organizations' own providers every day, and warns of ends. The tables are small: one row for each provider.

-- The default gives a turn to every provider, also to one that an older process adds.
alter table upstream_providers
    add column refresh_at        timestamptz not null default now(),
    add column refreshed_at      timestamptz,
    add column refresh_fault     text,
    add column failing_since     timestamptz,
    add column certificate_until timestamptz,
    add column former_certificate        text,
    add column former_sealed_private_key bytea,
    add constraint upstream_providers_former check ((former_certificate is null) = (former_sealed_private_key is null));
create index upstream_providers_due on upstream_providers (refresh_at);

create table connection_certificates (
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    fingerprint          text        not null,
    signed_at            timestamptz not null,
    primary key (upstream_provider_id, fingerprint)
);

create table connection_warnings (
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    ending               text        not null,
    ends_at              timestamptz not null,
    days                 smallint    not null,
    primary key (upstream_provider_id, ending)
);
