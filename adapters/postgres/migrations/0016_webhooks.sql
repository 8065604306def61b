-- additive
-- Webhooks, and events on their way to them.

create table webhooks (
    id                     uuid        primary key,
    org_id                 uuid        not null references all_organizations on delete cascade,
    name                   text        not null,
    url                    text        not null,
    events                 text[]      not null,
    is_active              boolean     not null default true,
    paused_at              timestamptz,
    sealed_secret          bytea       not null,
    previous_sealed_secret bytea,
    previous_until         timestamptz,
    failing_since          timestamptz,
    rests_until            timestamptz,
    lease                  uuid,
    leased_until           timestamptz,
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    unique (org_id, name),
    constraint webhooks_subscribe check (cardinality(events) > 0),
    constraint webhooks_paused check (paused_at is null or not is_active)
) with (fillfactor = 70);

create table webhook_deliveries (
    id            uuid        primary key,
    webhook_id    uuid        not null references webhooks on delete cascade,
    event_id      uuid        not null,
    event_name    text        not null,
    attempts      smallint    not null default 0,
    next_at       timestamptz,
    delivered_at  timestamptz,
    status_code   smallint,
    response_body text,
    error         text,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    unique (webhook_id, event_id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index webhook_deliveries_due    on webhook_deliveries (webhook_id, next_at) where next_at is not null;
create index webhook_deliveries_oldest on webhook_deliveries (created_at);
