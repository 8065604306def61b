-- additive
-- Invitations remember the management key that sent them, so that they end with the key. A key that somebody adopts gets a new secret; the
-- former one counts for a while, as long as whoever knows it stays.

alter table invitations add column made_by_key uuid;     -- kept when the key is gone

alter table management_keys
    add column former_digest bytea unique,
    add column former_until  timestamptz,
    add column former_holder uuid,                       -- who knows the former secret; kept when the user is gone
    add constraint management_keys_former check (
        (former_digest is null) = (former_until is null) and (former_digest is null) = (former_holder is null)
    );
