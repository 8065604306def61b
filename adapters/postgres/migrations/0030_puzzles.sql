-- additive
--
-- The puzzles of pages that somebody has solved and used, until they count no more anyway. Unlogged: after a crash of the database, a puzzle
-- of the last five minutes could be used once more.

create unlogged table used_puzzles (
    id         uuid        primary key,
    expires_at timestamptz not null
);
create index used_puzzles_by_expiry on used_puzzles (expires_at);
