-- additive
-- In the browser that registered an account, one button proves its address. Of accounts that are registered by older processes nothing is
-- known, and the page asks for their password.

alter table users add column registered_in bytea;
