-- additive
-- An organization's rules for signing in: whether its members need a second factor, how long its sessions last, and to which domains it
-- sends invitations. How long a device is trusted has been among them since 0002; now a device knows since when it is.

alter table all_organizations
    add column mfa_required_since timestamptz,
    add column mfa_grace_days     smallint not null default 7 check (mfa_grace_days between 0 and 90),
    add column session_hours      smallint check (session_hours between 1 and 2160),
    add column invitation_domains text[]   not null default '{}';

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains
      from all_organizations
     where deleted_at is null;

alter table devices add column trusted_at timestamptz;
