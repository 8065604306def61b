-- additive since 0004

-- Functions that processes of before called. No process of before 0.2.0 runs beside it, and each that has migration 0004 calls the functions
-- of today. A new database has none of these.
drop function if exists redeem_code_10(
    uuid, text, text, bytea, text, text, bytea, text, timestamptz, uuid, bytea, interval, interval, integer, text, text, uuid, boolean, text,
    inet, text, real, text[], boolean, text, text, smallint[], uuid, jsonb, uuid, text, text, jsonb, uuid
);
drop function if exists redeem_code_11(
    uuid, text, text, bytea, text, text, bytea, text, timestamptz, uuid, bytea, interval, interval, integer, text, text, uuid, boolean, text,
    inet, text, real, text[], boolean, text, text, smallint[], uuid, jsonb, uuid, text, text, jsonb, uuid
);
drop function if exists rotate_refresh_token_10(
    bytea, bytea, bytea, timestamptz, interval, uuid, text[], boolean, text, text, text[]
);
