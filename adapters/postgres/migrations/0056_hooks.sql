-- additive
--
-- Hooks before a sign-in (docs/decisions/0239-hooks-before-a-sign-in.md). A process of the release before asks none, and looks at no verdict.

create table hooks (
    id                     uuid        primary key,
    org_id                 uuid        references all_organizations on delete cascade,   -- null: the installation's
    point                  text        not null check (point in ('sign_in')),
    address                text        not null,
    silence                text        not null check (silence in ('go_on', 'refuse')),
    seconds                smallint    not null check (seconds between 1 and 5),
    sealed_secret          bytea,                         -- null for one that has arrived from elsewhere: it is not asked
    previous_sealed_secret bytea,
    previous_until         timestamptz,
    secret_made_at         timestamptz,
    counts_as              uuid        unique,            -- new each time that an owner lets it count; null: in shadow
    since                  timestamptz not null,          -- since when it stands exactly as it is
    created_at             timestamptz not null,
    updated_at             timestamptz not null,
    -- what the report shows, since then
    asked                  integer     not null default 0,
    silent                 integer     not null default 0,
    refused                integer     not null default 0,
    factors                integer     not null default 0,
    milliseconds           bigint      not null default 0,
    slowest                integer     not null default 0
) with (fillfactor = 50);
-- Two, because the oldest server has no "nulls not distinct".
create unique index hooks_of_organization on hooks (org_id, point) where org_id is not null;
create unique index hooks_of_installation on hooks (point) where org_id is null;

-- The last fifty questions and answers, with every text masked: nobody is named here.
create table hook_exchanges (
    id           uuid        primary key,
    hook_id      uuid        not null references hooks on delete cascade,
    at           timestamptz not null,
    milliseconds integer     not null,
    outcome      text        not null,
    why          text        not null default '',
    counted      boolean     not null,
    is_test      boolean     not null default false,
    sent         text        not null,
    answered     text        not null default ''
);
create index hook_exchanges_of_hook on hook_exchanges (hook_id, at desc);
create index hook_exchanges_newest on hook_exchanges (at);        -- the janitor's

-- What hooks have said, by the name under which a hook counts and the organization: {"<counts_as>/<organization>": {"hook", "at", "no"}}.
alter table sessions add column hook_verdicts jsonb;
-- How often the flow has asked.
alter table flows add column hooks_asked smallint not null default 0;
-- The session in which the person has approved a device: what hooks have said stands there.
alter table device_codes add column approved_in uuid;
