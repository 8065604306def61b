-- additive
-- Whom a provider was to ask once more what a service may do there; they are not sent back a second time.
alter table oauth_states add column asked_consent boolean not null default false;

-- Whether somebody whom an organization has removed had an address that now is another account's.
create index former_addresses_by_email on former_addresses (email_key);
