-- additive
--
-- Connections that issue identity assertions for their people. A process of the release before issues nothing for them, and keeps what is
-- set here.

alter table upstream_providers add column issues_assertions  boolean not null default false;
alter table upstream_providers add column assertion_issuer   text;                        -- of SAML; null: the issuer of the connection
alter table upstream_providers add column assertion_jwks_uri text;                        -- of SAML: where its keys are published, or
alter table upstream_providers add column assertion_jwks     jsonb;                       -- pasted
alter table upstream_providers add column assertion_subject  text    not null default 'sub';  -- the claim that has the identity's subject

-- Accepted assertions, each once. Without a foreign key to the session: an assertion must not be accepted again because its session has gone.
create table identity_assertions (
    id                   uuid        primary key,         -- of the session that it opened
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    digest               bytea       not null,            -- of the assertion's `jti`
    expires_at           timestamptz not null,            -- of the assertion or the session, whichever is later
    unique (upstream_provider_id, digest)
);
