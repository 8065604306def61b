-- additive

-- How long receivers may take to hear of an act that ends or weakens somebody's access (docs/decisions/0260-late-receivers.md). No row: no
-- deadline, and nobody looks.
create table offboarding_deadlines (
    id               uuid        primary key,
    org_id           uuid        not null unique references all_organizations on delete cascade,
    removal_minutes  integer,
    access_minutes   integer,
    security_minutes integer,
    seen_to          timestamptz not null,              -- the acts up to then are watched
    late             integer     not null default 0,    -- since the last mail
    mailed_at        timestamptz,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    constraint offboarding_deadlines_some check (num_nonnulls(removal_minutes, access_minutes, security_minutes) > 0),
    constraint offboarding_deadlines_minutes check (
        least(removal_minutes, access_minutes, security_minutes) >= 1 and greatest(removal_minutes, access_minutes, security_minutes) <= 10080
    )
);
create index offboarding_deadlines_seen on offboarding_deadlines (seen_to);
create index offboarding_deadlines_late on offboarding_deadlines (mailed_at) where late > 0;

-- Acts whose receivers are looked at, until all have accepted.
create table offboarding_watches (
    entry_id    uuid        primary key,                -- no reference: the log of a deleted organization stays
    deadline_id uuid        not null references offboarding_deadlines on delete cascade,
    act         text        not null check (act in ('removal', 'access', 'security')),
    act_at      timestamptz not null,
    look_at     timestamptz not null,
    reported    text[]      not null default '{}',      -- the receivers that were late once, by kind and id
    missing     integer     not null default 0          -- of these, those that have not accepted
);
create index offboarding_watches_due on offboarding_watches (look_at);
create index offboarding_watches_of_deadline on offboarding_watches (deadline_id, missing);
