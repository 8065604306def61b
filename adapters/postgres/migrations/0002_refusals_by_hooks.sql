-- additive

-- What hooks said of a sign-in that they refused and that has no session to keep it: whoever was refused does not come in because the hook
-- is silent next time. The same document as in `sessions`. A row may be about a stranger to the organization, so nobody reads this column in
-- the log.
alter table login_events add column hook_verdicts jsonb;
