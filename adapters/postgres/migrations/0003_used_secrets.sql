-- additive
--
-- Client secrets know when they were last used, so that nobody ends one that is still in use. A process of the release before leaves no mark.

alter table client_secrets add column last_used_at timestamptz;
alter table client_secrets set (fillfactor = 80);
