-- additive
-- The id of the request from which a row follows. Rows of older processes, and of work that no request asked for, have none. There is no
-- index: the id carries its moment, and `postern story` reads the rows of that moment by their own ids.
alter table audit_entries      add column request_id uuid;  -- beside the chained form
alter table events             add column request_id uuid;
alter table webhook_deliveries add column request_id uuid;
alter table login_events       add column request_id uuid;
alter table jobs               add column request_id uuid;
