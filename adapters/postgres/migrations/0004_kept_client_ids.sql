-- additive
--
-- A service that comes from another system may keep the client id that its programs are configured with. `oauth_client_id` is the one that
-- counts: the kept one, or else the service's own. A process of the release before knows the own ones alone.

alter table all_services add column kept_client_id text
    constraint all_services_kept_client_id check (
        kept_client_id ~ '^[A-Za-z0-9._~-]{8,80}$' and kept_client_id !~ '^-*([0-9A-Fa-f]-*){32}$'
    );

create unique index services_oauth_client_id on all_services ((coalesce(kept_client_id, client_id::text)));

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata,
           assertion_audience, access_token_alg, kept_client_id, coalesce(kept_client_id, client_id::text) as oauth_client_id
      from all_services
     where deleted_at is null;
