-- additive
--
-- Somebody waits on a page for the first sign-in to an application (docs/decisions/0233-why-and-the-first-sign-in.md): one row for a person,
-- for ten minutes. The refused requests that the browser session sent meanwhile stand in the row, so that they go with it.

create table awaited_sign_ins (
    id         uuid        primary key,                       -- of the page
    user_id    uuid        not null unique references users on delete cascade,
    session_id uuid        not null references sessions on delete cascade,
    service_id uuid        not null references all_services on delete cascade,
    refusals   uuid[]      not null default '{}',             -- the newest first
    began_at   timestamptz not null,
    ends_at    timestamptz not null
);
create index awaited_sign_ins_of_session on awaited_sign_ins (session_id);
create index awaited_sign_ins_of_service on awaited_sign_ins (service_id, id);
create index awaited_sign_ins_oldest     on awaited_sign_ins (ends_at);
