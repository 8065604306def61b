-- additive
--
-- What an organization asks of its members' next passwords, and what their sign-ins with stolen ones do.

alter table all_organizations add column shortest_password   smallint check (shortest_password between 8 and 64);  -- null: as the installation
alter table all_organizations add column breached_at_sign_in text check (breached_at_sign_in in ('tell', 'change')); -- null: nothing
