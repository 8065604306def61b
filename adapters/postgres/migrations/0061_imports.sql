-- additive
-- Whom an import has taken from another system, so that a second import takes nobody twice; and passkeys that another system has made.

create table imported_people (
    digest      bytea       primary key,                 -- keyed; of the source, and of its own name for the person
    user_id     uuid        references users on delete set null,  -- null: the account is gone, and does not come back by another import
    is_new      boolean     not null,                    -- the import made the account
    imported_at timestamptz not null
);
create index imported_people_of_user on imported_people (user_id) where user_id is not null;

-- The name of the person at the authenticator. Null: the account's id, as for every passkey that was made here.
alter table passkeys add column user_handle bytea;
-- The other system did not say whether the passkey may be copied, so its first use here does.
alter table passkeys add column awaits_first_use boolean not null default false;
