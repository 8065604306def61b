-- additive
--
-- What an organization's pages and mails wear besides name, logo and colour. It is text, because one look-up brings it as it stands, together
-- with the links, and each process keeps what it has read by this text. A process of the release before shows none of it.

alter table all_organizations
    add column look         text check (jsonb_typeof(look::jsonb) = 'object'),                      -- null: ours
    add column languages    text check (languages ~ '^[a-z]{2}(,[a-z]{2})*$'),     -- the first one first; null: all of ours
    add column texts_digest text check (texts_digest ~ '^[0-9a-f]{64}$');          -- of its own texts; null: none

-- The picture that consents, lists and mails show for the application.
alter table all_services
    add column logo_digest text check (logo_digest ~ '^[0-9a-f]{64}$');            -- null: none
