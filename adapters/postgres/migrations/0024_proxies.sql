-- additive
--
-- Applications behind a proxy: docs/decisions/0185-applications-behind-a-proxy.md. A process of the release before knows nothing of them, and
-- answers no proxy.

alter table all_services drop constraint all_services_service_type_check;
alter table all_services add constraint all_services_service_type_check
    check (service_type in ('web', 'mobile', 'desktop', 'api', 'metadata', 'proxy'));

-- What such an application asks of whoever comes, and what it is told. No row: nobody has set anything, and it has no host.
create table proxies (
    service_id   uuid        primary key references all_services on delete cascade,
    rules        text[]      not null,                       -- `/admin role editor`
    headers      text[]      not null,                       -- `Remote-User email`
    idle_minutes integer,                                    -- null: a session lasts as long as the browser's
    updated_at   timestamptz not null
);

-- One host has one application: of two organizations that claim a host, one gets it.
create table proxy_hosts (
    host        text        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    approved_at timestamptz                                  -- a platform owner said so; null: the organization has proved the domain
);
create index proxy_hosts_of_service on proxy_hosts (service_id, host);
