-- additive
-- The pages of one's own account say why a sign-in on a device looked risky, so the reasons are kept beside the score.

alter table devices add column risk_factors text[] not null default '{}';
