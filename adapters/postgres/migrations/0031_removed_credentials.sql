-- additive
-- When a service last lost something that it could show who it is by. A trigger, since lagging processes remove credentials too.

alter table all_services add column credential_removed_at timestamptz;

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at
      from all_services
     where deleted_at is null;

create function remember_removed_keys() returns trigger language plpgsql as $$
begin
    new.credential_removed_at := clock_timestamp();
    return new;
end $$;
create trigger services_keys_removed before update of jwks on all_services
    for each row when (old.jwks is not null and new.jwks is null) execute function remember_removed_keys();

create function remember_removed_secret() returns trigger language plpgsql as $$
begin
    update all_services set credential_removed_at = clock_timestamp() where id = old.service_id and deleted_at is null;
    return null;
end $$;
create trigger client_secrets_removed after delete on client_secrets
    for each row execute function remember_removed_secret();
