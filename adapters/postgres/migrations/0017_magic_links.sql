-- additive
-- Sign-in links by mail, and organizations that do not want them for their members.

alter table mailed_tokens
    drop constraint mailed_tokens_purpose_check,
    add constraint mailed_tokens_purpose_check
        check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email', 'sign_in', 'magic_link'));

alter table all_organizations add column sign_in_links boolean not null default true;

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links
      from all_organizations
     where deleted_at is null;
