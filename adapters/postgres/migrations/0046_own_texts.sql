-- additive
--
-- Texts of organizations' own.

create table organization_texts (
    id         uuid        primary key default gen_random_uuid(),
    org_id     uuid        references all_organizations,       -- null: the installation's
    key        text        not null,
    language   text        not null check (language ~ '^[a-z]{2,8}$'),
    text       text        not null,                           -- paragraphs are separated by an empty line
    based_on   text        not null
);
create unique index organization_texts_of_organization on organization_texts (org_id, key, language) where org_id is not null;
create unique index organization_texts_of_installation on organization_texts (key, language) where org_id is null;
-- One row, or none: the digest of the installation's texts.
create table installation_texts (
    is_only boolean primary key default true check (is_only),
    digest  text check (digest ~ '^[0-9a-f]{64}$')             -- null: no texts
);
