-- additive
--
-- Passkeys first (docs/decisions/0211-passkeys-first.md): when a person was last offered one and whether they want to hear no more of it, the
-- browser that made a passkey, and an organization's demand of a passkey of its people. A process of the release before enforces no such
-- demand and offers nothing.

alter table users add column passkey_offered_at timestamptz;            -- null: never
alter table users add column passkey_offers_ended_at timestamptz;       -- null: the person may be offered one again

alter table passkeys add column made_on text;                           -- the browser and system; null: made before, or elsewhere

-- null: nobody. The role is that of a service, by its id, and without a foreign key: an organization arrives before its services, and a role
-- that has ended reaches nobody.
alter table all_organizations add column all_factor text
    constraint all_organizations_all_factor check (all_factor in ('passkey', 'role_passkey'));
alter table all_organizations add column all_factor_role_id uuid;
alter table all_organizations add column all_required_since timestamptz;
alter table all_organizations add column passkey_offers boolean not null default true;
