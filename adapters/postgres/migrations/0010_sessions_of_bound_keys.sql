-- additive, in steps

-- The sessions of a key, for its renewals, and for the sweep of keys that have none left.

-- step: index browser_sessions_bound_to
create index concurrently browser_sessions_bound_to on browser_sessions (bound_to) where bound_to is not null;
