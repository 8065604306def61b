-- additive
-- A set-up of a second factor belongs to the session that began it. One that a lagging process began belongs to any.

alter table mfa_secrets add column session_id uuid;
