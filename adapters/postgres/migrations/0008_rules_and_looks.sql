-- additive
--
-- Settings that go back, a rule for administrators, and logos that are uploaded.

-- For ten minutes, what settings were before a page changed them. Secrets are not in it. A process of the release before keeps nothing.

create table changed_settings (
    id              uuid        primary key,
    entry_id        uuid        not null,               -- of `audit_entries`
    organization_id uuid        references all_organizations on delete cascade,   -- null: a setting of the installation
    place           text        not null check (char_length(place) between 1 and 1000),
    section         text        not null check (char_length(section) between 1 and 100),
    before          jsonb       not null,               -- the texts of the form
    after           jsonb       not null,
    earlier         integer     not null,               -- entries about the same thing, ten minutes before and since
    changed_at      timestamptz not null
);
create index changed_settings_by_place on changed_settings (place, changed_at desc);
create index changed_settings_of_organization on changed_settings (organization_id, id) where organization_id is not null;
create index changed_settings_of_entry on changed_settings (entry_id);
create index changed_settings_oldest on changed_settings (changed_at);

-- What the organization asks of its administrators, beyond what it asks of all members. A process of the release before does not ask it.
alter table all_organizations add column admin_factor text check (admin_factor in ('second_factor', 'passkey'));   -- null: nothing more
alter table all_organizations add column admin_required_since timestamptz;

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata,
           help_url, privacy_url, terms_url, admin_factor, admin_required_since
      from all_organizations
     where deleted_at is null;
