-- additive
--
-- The second factor that a directory has asked for may count for the rule of its own organization, if an owner has chosen so. A session
-- keeps what its directory has stated; what counts, the connection says at each request. A process of the release before states nothing, so
-- with it the rule counts as without.

alter table upstream_providers add column second_factor_values text[] not null default '{}';  -- those of its answers that count; none: nothing does
alter table upstream_providers add constraint upstream_providers_factors check (kind <> 'ldap' or second_factor_values = '{}');

alter table sessions add column factor_through uuid;  -- the directory that stated a second factor; kept when it is gone
alter table sessions add column factor_stated  text;  -- by this value
