-- additive
-- The device flow: devices without a browser, whose people let them in by a code.

create table device_codes (
    id               uuid        primary key,
    digest           bytea       not null unique,
    user_code_hmac   bytea       not null,
    service_id       uuid        not null references all_services on delete cascade,
    scopes           text[]      not null,
    state            text        not null default 'pending' check (state in ('pending', 'approved', 'denied', 'consumed')),
    address          inet,
    user_agent       text,
    created_at       timestamptz not null,
    expires_at       timestamptz not null,
    poll_interval    integer     not null,
    polled_at        timestamptz,
    is_slowed        boolean     not null default false,
    user_id          uuid        references users on delete cascade,
    decided_at       timestamptz,
    proved_at        timestamptz,
    second_factor_at timestamptz,
    authenticated_by text[],
    constraint device_codes_decided check (
        (state = 'pending') = (user_id is null) and (user_id is null) = (decided_at is null)
        and (authenticated_by is not null or state in ('pending', 'denied'))
    )
);
create unique index device_codes_user_code on device_codes (user_code_hmac) where state = 'pending';
create index device_codes_of_service on device_codes (service_id, id);
create index device_codes_of_user    on device_codes (user_id) where user_id is not null;
create index device_codes_expiry     on device_codes (expires_at);
