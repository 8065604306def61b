-- additive

-- What anybody may send to a connection is one entry of its recorder, with a count, so that it pushes out no other entry.
alter table connection_exchanges
    add column times integer not null default 1,
    add column last_at timestamptz;
