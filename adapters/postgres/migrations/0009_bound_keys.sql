-- additive

-- Cookies that count with a key of their browser alone: docs/decisions/0259-cookies-bound-to-a-key.md.

create table bound_keys (
    id                   uuid        primary key,
    algorithm            text        not null check (algorithm in ('ES256', 'RS256')),
    public_key           text        not null,          -- as a JSON Web Key, in its only form
    created_at           timestamptz not null,
    challenge            text,                          -- the newest, until a proof has used it
    challenged_at        timestamptz,
    former_challenge     text,                          -- the one before it, which another tab may be signing
    former_challenged_at timestamptz,
    refused_at           timestamptz,                   -- when the log last had a wrong signature
    check ((challenge is null) = (challenged_at is null)),
    check ((former_challenge is null) = (former_challenged_at is null))
);
create index bound_keys_age on bound_keys (created_at);

-- Null: the cookie of the session counts alone.
alter table browser_sessions add column bound_to uuid references bound_keys;
