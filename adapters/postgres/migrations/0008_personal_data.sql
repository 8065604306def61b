-- additive
-- Personal data has an end: what an event says of a person stands apart from what happened, and what is due is found by an index.

alter table events add column personal jsonb;

-- Nothing reads the details of events yet, so those written before can be split.
update events
   set personal = (select jsonb_object_agg(key, value) from jsonb_each(details) where key = any (array['email', 'invited_email', 'operator', 'reason'])),
       details = details - array['email', 'invited_email', 'operator', 'reason']
 where details ?| array['email', 'invited_email', 'operator', 'reason']
   and name not like 'user.login.%';                      -- there the reason is a word from a closed list

create index events_personal on events (occurred_at) where personal is not null;
create index mfa_events_newest on mfa_events (created_at);
