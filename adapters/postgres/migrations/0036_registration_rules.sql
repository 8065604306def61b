-- additive
--
-- Whom the pages of an organization give an account. A process of the release before asks for neither, and gives accounts to anybody.

alter table all_organizations add column registration_policy text not null default 'anybody'
    check (registration_policy in ('anybody', 'except_domains', 'domains', 'invitation', 'closed'));
alter table all_organizations add column registration_domains text[] not null default '{}';  -- let in, or refused, as the policy says
