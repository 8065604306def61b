-- additive
--
-- Access tokens that are good with the proof of a key alone (DPoP, RFC 9449). A thumbprint is that of RFC 7638, in base64url. A process of the
-- release before binds nothing, and knows neither a session that is bound nor a service that wants its tokens bound.

alter table all_services        add column dpop_bound_access_tokens boolean not null default false;
alter table sessions            add column key_thumbprint text;  -- null: its tokens are good for whoever has them
alter table authorization_codes add column key_thumbprint text;  -- null: redeemed with any key, or with none

-- The proofs that were used, until they count no more anyway. Unlogged: after a crash of the database, a proof of the last minute could be
-- used once more.
create unlogged table used_key_proofs (
    digest     bytea       primary key,
    expires_at timestamptz not null
);
create index used_key_proofs_by_expiry on used_key_proofs (expires_at);
