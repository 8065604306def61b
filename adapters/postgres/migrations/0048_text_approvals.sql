-- additive
--
-- Own texts in mails by the installation's server wait for a platform owner. A process of the release before shows no own texts.

alter table all_organizations
    add column approved_texts text check (approved_texts ~ '^[0-9a-f]{64}$');   -- the digest of the texts with a platform owner's yes; null: none

-- Texts are looked up by their digest.
create index organizations_with_texts on all_organizations (texts_digest) where texts_digest is not null;

-- One row, or none before the first change: where texts of organizations wait for that yes.
create table text_approval_rules (
    is_only boolean primary key default true check (is_only),
    mails   boolean not null default true,
    pages   boolean not null default false
);
