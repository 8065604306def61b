-- additive, in steps

-- Dispatchers find by it what waits for a stream. It holds those rows alone.
-- step: index logout_notices_told
create index concurrently logout_notices_told on logout_notices (stream_id, tell_at) where tell_at is not null;
