-- additive
--
-- Counts of sign-ins that failed, of one hour each. A count has one of 65 536 rows of its kind, so no flood makes more. The slot of a
-- password's row is 16 bits of its digest under a key of the hour, and nothing else of a password stands anywhere. Unlogged: neither a
-- write-ahead log nor a backup has them.

create unlogged table guess_counts (
    kind     text        not null check (kind in ('account', 'network', 'password', 'wide')),
    slot     integer     not null check (slot between 0 and 65535),
    -- What the slot belongs to in this hour.
    key      text        not null,
    hour     timestamptz not null,
    -- Names the count in its alert, which outlives it.
    id       uuid        not null default gen_random_uuid() unique,
    -- Without a foreign key, here and below: nobody's account waits for a guesser, and the rows are gone within hours.
    user_id  uuid,
    network  text,
    family   text,
    failures integer     not null,
    -- 64 marks: of accounts, and in an account's row of passwords.
    seen     bigint      not null,
    first_at timestamptz not null,
    last_at  timestamptz not null,
    primary key (kind, slot)
);
create index guess_counts_by_hour on guess_counts (hour);

-- Counts that were no coincidence, for a day. Nothing of a password is in them.
create unlogged table guess_alerts (
    id       uuid        primary key,
    type     text        not null,
    user_id  uuid,
    network  text,
    family   text,
    marks    integer     not null,
    failures integer     not null,
    first_at timestamptz not null,
    last_at  timestamptz not null
);
create index guess_alerts_by_time on guess_alerts (last_at);
