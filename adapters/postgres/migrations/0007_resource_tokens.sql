-- additive
--
-- Codes, sessions and consents know the APIs that they are for. A process of the release before opens sessions without APIs.

-- [{resource_id, identifier, scopes}]; null: for no API
alter table authorization_codes add column audiences jsonb;
alter table device_codes        add column audiences jsonb;

-- The APIs that a session may have tokens for. Without a foreign key to the API: a session whose API is gone must not become one for no API.
create table session_audiences (
    session_id  uuid   not null references sessions on delete cascade,
    resource_id uuid   not null,
    identifier  text   not null,
    scopes      text[] not null,
    primary key (session_id, resource_id)
);
create index session_audiences_of_resource on session_audiences (resource_id);

-- What people allow applications at APIs. A table of its own beside `consents`: a process of the release before gives consents by the
-- person and service alone, and takes back what hangs on them.
create table resource_consents (
    user_id     uuid        not null,
    service_id  uuid        not null,
    resource_id uuid        not null,
    identifier  text        not null,
    scopes      text[]      not null,
    withheld    text[]      not null default '{}',          -- what they refused when they allowed the others
    granted_at  timestamptz not null,
    primary key (user_id, service_id, resource_id),
    foreign key (user_id, service_id) references consents (user_id, service_id) on delete cascade
);
create index resource_consents_of_service on resource_consents (service_id);
create index resource_consents_of_resource on resource_consents (resource_id);
