-- additive
-- A code beside a mailed link, for the browser that asked for the mail. Older processes mail links without a code.

alter table mailed_tokens
    -- The flow that asked. Its row may go earlier than this one, so there is no foreign key.
    add column flow_id     uuid,
    add column code_digest bytea,
    add column code_tries  smallint not null default 0,
    add constraint mailed_tokens_code check ((flow_id is null) = (code_digest is null));

create index mailed_tokens_of_flow on mailed_tokens (flow_id) where flow_id is not null;
