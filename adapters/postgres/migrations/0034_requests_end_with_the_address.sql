-- additive
-- Whoever may become a member by an address may do so as long as it is theirs. With the address, what was asked for by it goes, also where a
-- lagging process replaces it.

create or replace function remember_address() returns trigger language plpgsql as $$
begin
    insert into former_addresses (user_id, email_key, held_until) values (old.id, old.email_key, greatest(new.updated_at, now()))
        on conflict (user_id, email_key) do update set held_until = excluded.held_until;
    delete from join_requests where user_id = old.id and status = 'pending';
    return null;
end $$;

delete from join_requests
 using users
 where users.id = join_requests.user_id and join_requests.status = 'pending'
   and (users.email_verified_at is null or lower(users.email) <> lower(join_requests.email));
