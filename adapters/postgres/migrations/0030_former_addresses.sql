-- additive
-- The proved addresses that people have given up, so that forgetting them finds what was sent there. What lagging processes replace is
-- remembered too. Addresses that were given up before are not known.

create table former_addresses (
    user_id    uuid        not null,
    email_key  text        not null,
    held_until timestamptz not null,
    primary key (user_id, email_key)
);

create function remember_address() returns trigger language plpgsql as $$
begin
    insert into former_addresses (user_id, email_key, held_until) values (old.id, old.email_key, greatest(new.updated_at, now()))
        on conflict (user_id, email_key) do update set held_until = excluded.held_until;
    return null;
end $$;
create trigger users_address_given_up after update of email_key, email_verified_at on users
    for each row
    when (
        old.email_verified_at is not null
        and (new.email_key <> old.email_key or new.email_verified_at is null)
        and new.anonymized_at is null
    )
    execute function remember_address();
