-- additive, in steps
-- Accounts whose address nobody has proved, and that neither a directory nor the platform holds, by their age.

-- step: index users_unproved
create index concurrently users_unproved on users (created_at)
 where email_verified_at is null and deactivated_at is null and origin_org_id is null and not is_platform_owner;
