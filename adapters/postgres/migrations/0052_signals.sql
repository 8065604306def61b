-- additive
--
-- Shared signals (docs/decisions/0236-shared-signals.md). A process of the release before queues none, and sends none: a notice for a stream
-- waits by `tell_at`, and its `next_at` stays null.

-- What an owner has turned on for an application. No row: no signals. Turning off ends all its streams.
create table signal_settings (
    service_id uuid        primary key references all_services on delete cascade,
    events     text[]      not null,
    hosts      text[]      not null,                       -- that pushes may go to
    updated_at timestamptz not null,
    constraint signal_settings_events check (cardinality(events) > 0)
);

-- What an application has made to hear of events. The row is also what a dispatcher claims.
create table signal_streams (
    id            uuid        primary key,
    service_id    uuid        not null references signal_settings on delete cascade,
    method        text        not null check (method in ('push', 'poll')),
    endpoint      text,                                    -- null: it is polled
    sealed_header bytea,                                   -- the `Authorization` header of pushes; null: none
    events        text[]      not null,                    -- those that it asked for
    description   text,
    status        text        not null check (status in ('enabled', 'paused', 'disabled')),
    status_reason text,
    verified_at   timestamptz,                             -- when a proof of life was asked for last
    failing_since timestamptz,                             -- nothing was received since then
    rests_until   timestamptz,                             -- the receiver has asked for time
    lease         uuid,
    leased_until  timestamptz,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    constraint signal_streams_endpoint check ((method = 'push') = (endpoint is not null)),
    constraint signal_streams_header check (sealed_header is null or endpoint is not null)
) with (fillfactor = 70);
create index signal_streams_of_service on signal_streams (service_id, id);

-- `signal`: `webhook_id` names a stream. Without a check: the parts of months to come are made without one.
alter table webhook_deliveries add column kind text not null default 'webhook';

-- An ended session that a stream hears of. `session_id` is then a digest of stream and session: no signal names a session.
alter table logout_notices add column stream_id uuid;          -- no reference: nobody who signs out waits for a stream
alter table logout_notices add column tell_at   timestamptz;   -- null: told, given up, or no signal
alter table logout_notices add column ended_all boolean;       -- no other session of the person was left at the application
alter table logout_notices add column by_policy boolean;       -- it ran out
