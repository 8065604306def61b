-- additive
-- An organization's own provider vouches for an address, and proves none. Processes of the release before go on to write that it proves one;
-- the triggers store what it is.

alter table users add column address_vouched_by text;
alter table sessions add column opened_through uuid;
alter table passkeys add column made_in uuid;
alter table identities add column made_in uuid;
alter table mfa_secrets add column made_in uuid;
alter table upstream_providers add column succeeds text[] not null default '{}';

create function forget_voucher() returns trigger language plpgsql as $$
begin
    if new.email_verified_at is not null or new.email_key <> old.email_key then
        new.address_vouched_by := null;
    end if;
    return new;
end $$;
create trigger users_address_proved before update of email_key, email_verified_at on users
    for each row execute function forget_voucher();

-- Who writes account and identity in one transaction is such a process, or an import or a move, and these say so.
create function vouch_for_address() returns trigger language plpgsql as $$
begin
    update users
       set email_verified_at = null, address_vouched_by = providers.org_id || '/' || providers.id
      from upstream_providers as providers
     where users.id = new.user_id and providers.id = new.upstream_provider_id and users.email_verified_at is not null
       and users.xmin = pg_current_xact_id()::xid and coalesce(current_setting('postern.brings_proofs', true), '') <> 'yes';
    return null;
end $$;
create trigger identities_vouch after insert on identities
    for each row when (new.upstream_provider_id is not null) execute function vouch_for_address();

drop trigger users_address_given_up on users;
create trigger users_address_given_up after update of email_key, email_verified_at on users
    for each row
    when (
        old.email_verified_at is not null
        and (new.email_key <> old.email_key or new.email_verified_at is null and new.address_vouched_by is null)
        and new.anonymized_at is null
    )
    execute function remember_address();
