-- additive
--
-- A person lets an application make streams of signals (docs/decisions/0236-shared-signals.md). A process of the release before tells such
-- a stream without a look at the person's right, until the janitor of this release has ended it.

alter table signal_streams add column granted_by uuid references users on delete cascade;   -- null: made by the application's own token
create index signal_streams_granted on signal_streams (granted_by) where granted_by is not null;
