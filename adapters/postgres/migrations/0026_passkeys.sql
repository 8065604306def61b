-- additive
-- Passkeys, and the challenges that they answer. Lagging processes know no passkey, so one that is a second factor is asked for by the new
-- processes only: they let its owner in by the password alone until they are replaced.

create table passkeys (
    id                  uuid        primary key,
    user_id             uuid        not null references users on delete cascade,
    credential_id       bytea       not null unique,
    public_key          bytea       not null,
    sign_count          bigint      not null,
    name                text        not null,
    aaguid              uuid        not null,
    transports          text[]      not null,
    backup_eligible     boolean     not null,
    backed_up           boolean     not null,
    created_at          timestamptz not null,
    last_used_at        timestamptz,
    second_factor_since timestamptz
);
create index passkeys_of_user on passkeys (user_id);
create index passkeys_second_factors on passkeys (user_id) where second_factor_since is not null;

create table passkey_challenges (
    digest     bytea       primary key,
    expires_at timestamptz not null
);
create index passkey_challenges_expiry on passkey_challenges (expires_at);
