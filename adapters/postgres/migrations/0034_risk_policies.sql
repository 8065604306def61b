-- additive
--
-- Rules for risk of an organization, with their exceptions, and since when any of them counts. What they said of a sign-in stands in its
-- session: the organizations whose rules let it in, and those that it stays out of. The sign-in says which rule decided. A process of the
-- release before asks no rule, so rules hold only after its last process has ended.

alter table all_organizations add column risk_policies jsonb not null default '[]';
alter table all_organizations add column risk_exceptions jsonb not null default '[]';
alter table all_organizations add column risk_counts_since timestamptz;

alter table sessions add column let_in_by uuid[];
alter table sessions add column kept_out_by uuid[];

alter table login_events add column decision jsonb;
