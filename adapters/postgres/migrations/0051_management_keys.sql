-- additive
-- Keys with which programs manage an organization, or the platform. What a key made remembers the key, so that it can end with the key.

create table management_keys (
    id           uuid        primary key,
    org_id       uuid        references all_organizations on delete cascade,  -- null: of the platform
    name         text        not null,
    prefix       text        not null unique,
    digest       bytea       not null unique,
    capabilities text[]      not null,
    expires_at   timestamptz not null,
    last_used_at timestamptz,
    created_by   uuid        not null,                   -- kept when the user is gone
    created_at   timestamptz not null,
    adopted_by   uuid,                                   -- kept when the user is gone
    adopted_at   timestamptz,
    constraint management_keys_adopted check ((adopted_by is null) = (adopted_at is null))
) with (fillfactor = 80);
create index management_keys_of_organization on management_keys (org_id, created_at desc, id desc);
create index management_keys_of_maker on management_keys (created_by);
create index management_keys_of_adopter on management_keys (adopted_by) where adopted_by is not null;
create index management_keys_due on management_keys (expires_at);

alter table api_keys add column made_by_key uuid;        -- kept when the key is gone
create index api_keys_made_by_key on api_keys (made_by_key) where made_by_key is not null;
alter table client_secrets add column made_by_key uuid;  -- kept when the key is gone
create index client_secrets_made_by_key on client_secrets (made_by_key) where made_by_key is not null;
