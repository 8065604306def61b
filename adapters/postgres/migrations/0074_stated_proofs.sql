-- additive

-- When somebody signed in at a provider, by the provider's own word; 1970-01-01 if it states no time. Null: the proof was given here, as
-- all were before.
alter table sessions            add column stated_at timestamptz;
alter table authorization_codes add column stated_at timestamptz;
alter table device_codes        add column stated_at timestamptz;
alter table preauthentications  add column stated_at timestamptz;

-- A mailed code may be a fresh proof in one session, which `flow_id` names then.
alter table mailed_tokens drop constraint mailed_tokens_purpose_check;
alter table mailed_tokens add constraint mailed_tokens_purpose_check
    check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email', 'sign_in', 'magic_link', 'prove'));

-- A directory may let its people use our own pages, and no application (ProxyRestriction).
alter table sessions           add column refuses_applications boolean not null default false;
alter table preauthentications add column refuses_applications boolean not null default false;
