-- additive
-- Platform owners find organizations by the beginning of a slug or of a name.

create index organizations_by_slug_start on all_organizations (slug text_pattern_ops) where deleted_at is null;
create index organizations_by_name_start on all_organizations (lower(name) text_pattern_ops) where deleted_at is null;
