-- additive, in steps
-- With these, the next migration reads no row.

-- step: validate login_events_past of login_events
alter table login_events validate constraint login_events_past;

-- step: validate events_past of events
alter table events validate constraint events_past;

-- step: validate webhook_deliveries_past of webhook_deliveries
alter table webhook_deliveries validate constraint webhook_deliveries_past;

-- A unique index of a table in parts holds what the parts are cut by.
-- step: index webhook_deliveries_whole
create unique index concurrently webhook_deliveries_whole on webhook_deliveries (id, event_id);
