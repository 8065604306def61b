-- additive
-- What people say of themselves. All of it is optional, and only the person writes it, or a provider of the installation at the first sign-in.

create table pictures (
    id         uuid        primary key,                  -- random: it is in the picture's address
    user_id    uuid        not null unique references users on delete cascade,
    type       text        not null check (type in ('image/png', 'image/jpeg', 'image/webp')),
    content    bytea       not null check (octet_length(content) between 1 and 262144),
    created_at timestamptz not null
);

alter table users add column name        text check (char_length(name) between 1 and 200);
alter table users add column given_name  text check (char_length(given_name) between 1 and 200);
alter table users add column family_name text check (char_length(family_name) between 1 and 200);
alter table users add column username    text unique check (username ~ '^[a-z0-9][a-z0-9._-]{1,38}[a-z0-9]$');
alter table users add column zoneinfo    text check (char_length(zoneinfo) between 1 and 64);
alter table users add column picture_id  uuid;           -- of its row in `pictures`
alter table users add column profile_updated_at timestamptz;

-- A user name is never issued twice, also when its account was forgotten: the digest outlives the account and tells nothing without the key.
create table used_usernames (
    digest bytea primary key
);
