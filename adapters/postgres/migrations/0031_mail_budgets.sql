-- additive
--
-- How many mails strangers have asked for in an hour, by where they ask from and whom they name.

-- Unlogged: losing it in a crash of the database opens the budgets once, ends the exceptions, and costs no write-ahead log. Only what counts
-- makes rows, so an hour has four for each mail of the installation's budget, however many networks ask.
create unlogged table mail_budgets (
    id           uuid        not null default gen_random_uuid() unique,
    lane         text        not null check (lane in ('open', 'reserve', 'solved')),
    scope        text        not null check (scope in ('network', 'mail_domain', 'organization', 'installation')),
    key          text        not null,                     -- a network, a domain, an organization's id; empty for the installation
    hour         timestamptz not null,                     -- the counts are of the hour that begins then
    size         integer     not null,                     -- the budget of an hour, when something last counted
    taken        integer     not null,                     -- in this hour
    waiting      integer     not null,                     -- for the hours after it
    held         integer     not null default 0,           -- how often the budget has said no, since
    held_since   timestamptz,
    held_at      timestamptz,                              -- and the last time
    exempt_until timestamptz,                              -- a platform owner has lifted the budget until then
    primary key (lane, scope, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

create index mail_budgets_hour on mail_budgets (hour);
