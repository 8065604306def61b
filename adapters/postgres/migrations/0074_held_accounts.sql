-- additive
-- Who holds an account that an organization has made for somebody: a person may let others hold it, and that never ends.

create table held_accounts (
    user_id    uuid        primary key references users on delete cascade,
    held_since timestamptz not null
);

-- An own membership in another organization than the maker. The transaction has the account before the membership.
create function let_organization_hold() returns trigger language plpgsql as $$
begin
    insert into held_accounts (user_id, held_since)
    select users.id, new.own_since from users where users.id = new.user_id and users.origin_org_id <> new.org_id
        on conflict (user_id) do nothing;
    return null;
end $$;
create trigger members_hold_when_added after insert on memberships
    for each row when (new.own_since is not null) execute function let_organization_hold();
create trigger members_hold_when_own after update of own_since on memberships
    for each row when (old.own_since is null and new.own_since is not null) execute function let_organization_hold();

-- A right on the platform, also one that was.
create function let_platform_hold() returns trigger language plpgsql as $$
begin
    insert into held_accounts (user_id, held_since) values (new.id, now()) on conflict (user_id) do nothing;
    return null;
end $$;
create trigger platform_holds after update of is_platform_owner on users
    for each row when (new.is_platform_owner and new.origin_org_id is not null) execute function let_platform_hold();
