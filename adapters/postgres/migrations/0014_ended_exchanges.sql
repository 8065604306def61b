-- additive, in steps

-- The janitor's: sessions of exchanged tokens go soon after their end.
-- step: index sessions_exchanged
create index concurrently sessions_exchanged on sessions (ends_at) where exchanged_from is not null;
