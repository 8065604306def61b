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
    check (purpose in ('verify_email', 'reset_password', 'set_password', 'change_email', 'sign_in', 'magic_link', 'prove')) not valid;

-- A directory may let its people use our own pages, and no application (ProxyRestriction).
alter table sessions           add column refuses_applications boolean not null default false;
alter table preauthentications add column refuses_applications boolean not null default false;

-- The one audience that a service's client assertions name: the issuer, or also an endpoint's address. Services from before, and those that
-- a process of the release before makes, go on as they did.
alter table all_services add column assertion_audience text not null default 'endpoint'
    constraint all_services_assertion_audience check (assertion_audience in ('issuer', 'endpoint'));
create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata,
           assertion_audience
      from all_services
     where deleted_at is null;

-- When the directory made the assertion, by its own clock: a sign-out that it asked for before does not end the session.
alter table directory_sessions add column issued_at timestamptz;
