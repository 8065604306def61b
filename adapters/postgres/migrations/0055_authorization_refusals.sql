-- additive
-- Refused requests of applications: the last fifty of a service, for a week, with the reason of each.

create table authorization_refusals (
    id          uuid        primary key,
    service_id  uuid        not null references all_services on delete cascade,
    place       text        not null,
    reason      text        not null,
    received    text        not null,
    expected    text        not null,
    occurred_at timestamptz not null
);
create index authorization_refusals_of_service on authorization_refusals (service_id, id);
create index authorization_refusals_oldest     on authorization_refusals (occurred_at);
