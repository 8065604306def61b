-- additive
-- Keys of clients that are published under an address.

alter table all_services
    add column jwks_uri        text,
    add column jwks_fetched_at timestamptz,
    add constraint all_services_published_keys check (jwks_uri is null or (jwks is not null and jwks_fetched_at is not null));

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at
      from all_services
     where deleted_at is null;
