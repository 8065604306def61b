-- additive
-- Three pages of an organization's own that the foot of our pages links to.

alter table all_organizations add column help_url text;
alter table all_organizations add column privacy_url text;
alter table all_organizations add column terms_url text;

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata,
           help_url, privacy_url, terms_url
      from all_organizations
     where deleted_at is null;
