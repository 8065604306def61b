-- additive
-- What people allow applications, and authorization requests that applications push before they send somebody here.

create table consents (
    id         uuid        primary key,
    user_id    uuid        not null references users on delete cascade,
    service_id uuid        not null references all_services on delete cascade,
    scopes     text[]      not null,
    granted_at timestamptz not null,
    unique (user_id, service_id)
);
create index consents_of_service on consents (service_id, id);

create table pushed_requests (
    id         uuid        primary key,
    digest     bytea       not null unique,
    service_id uuid        not null references all_services on delete cascade,
    request    jsonb       not null,
    expires_at timestamptz not null
);
create index pushed_requests_of_service on pushed_requests (service_id, id);
create index pushed_requests_expiry     on pushed_requests (expires_at);
