-- additive
--
-- Attributes of a directory fill fields of its organization. A process of the release before leaves these attributes out.

alter table scim_groups add column profile_mapping jsonb not null default '{}';  -- the organization's fields by the directory's attributes
