-- additive
--
-- Services choose the algorithm of the access tokens that they hold. A process of the release before signs all of them with ES256, and
-- refuses those with RS256.

alter table all_services add column access_token_alg text not null default 'ES256' check (access_token_alg in ('RS256', 'ES256'));

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata,
           assertion_audience, access_token_alg
      from all_services
     where deleted_at is null;

-- A process of the release before cannot read the fourth purpose, so it sees a view without it.
drop view signing_keys;
alter table all_signing_keys rename to signing_keys;
alter index all_signing_keys_pkey rename to signing_keys_pkey;
alter table signing_keys drop constraint signing_keys_purpose_check;
alter table signing_keys add constraint signing_keys_purpose_check
    check (purpose in ('access', 'access_rs256', 'id', 'id_es256')) not valid;

create view all_signing_keys as
    select id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at, retires_at
      from signing_keys
     where purpose in ('access', 'id', 'id_es256');
