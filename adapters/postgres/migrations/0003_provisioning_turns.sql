-- additive

-- A look at everybody in the system of an application works in turns (docs/decisions/0243-a-run-works-in-turns.md).
alter table provisioning_connections
    add column claimed_at   timestamptz,                     -- when its last turn began
    add column turn_over_at timestamptz;                     -- its last turn has run out, and there is more to do: others go first

-- How far a run has come, from one turn to the next: parts of at most 256 KiB, by name and place.
create table provisioning_progress (
    connection_id uuid    not null references provisioning_connections on delete cascade,
    name          text    not null,
    place         integer not null,
    part          bytea   not null,
    primary key (connection_id, name, place)
);
