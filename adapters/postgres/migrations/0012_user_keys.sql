-- additive
--
-- Keys that an application lets its users make for its own API. A process of the release before knows nothing of them, and opens nothing
-- with them.

-- Whether an application has them, and their bounds. No row: it never turned them on.
create table user_key_settings (
    service_id   uuid     primary key references all_services on delete cascade,
    enabled      boolean  not null,
    prefix       text,                                       -- the beginning of the application's keys; never null while enabled
    most_keys    smallint not null,                          -- of one person
    longest_days smallint,                                   -- null: a key may have no end
    resource_id  uuid     references resource_servers on delete set null,  -- the API whose scopes the keys carry
    updated_at   timestamptz not null,
    constraint user_key_settings_prefixed check (prefix is not null or not enabled)
);
create index user_key_settings_of_resource on user_key_settings (resource_id) where resource_id is not null;

create table user_keys (
    id           uuid        primary key,
    service_id   uuid        not null references all_services on delete cascade,
    user_id      uuid        not null references users on delete cascade,
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    resource_id  uuid,                                       -- without a foreign key: a key of an API that is gone has no scopes
    scopes       text[]      not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    created_at   timestamptz not null,
    made_by_key  uuid,                                       -- the application's API key; null: the person made it. Kept when that key is gone
    foreign key (service_id, user_id) references service_users (service_id, user_id) on delete cascade
) with (fillfactor = 80);
create index user_keys_of_service on user_keys (service_id, id);
create index user_keys_of_user on user_keys (user_id, service_id, id);
create index user_keys_due on user_keys (expires_at) where expires_at is not null;

-- Whoever leaves an organization loses the keys of its applications that let only members and people with roles in, and of those that the
-- person entered only as a member.
create function end_user_keys_of_members() returns trigger language plpgsql as $$
begin
    delete from user_keys
     using gone
      join service_users on service_users.org_id = gone.org_id and service_users.user_id = gone.user_id
      join all_services on all_services.id = service_users.service_id
     where user_keys.service_id = service_users.service_id and user_keys.user_id = service_users.user_id
       and (all_services.sign_in_policy <> 'anyone' or service_users.own_since is null);
    return null;
end $$;
create trigger members_lose_user_keys after delete on memberships
    referencing old table as gone for each statement execute function end_user_keys_of_members();
