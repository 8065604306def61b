-- additive
--
-- Texts of organizations and of the installation in place of ours. A process of the release before shows ours.

create table organization_texts (
    id            uuid        primary key,
    org_id        uuid        references all_organizations on delete cascade,           -- null: the installation's
    key           text        not null check (key ~ '^[a-z0-9_.]{1,80}$'),              -- one of the open list
    language      text        not null check (language ~ '^[a-z]{2,8}$'),
    text          text        not null check (length(text) between 1 and 4000),
    based_on      text        not null,                                                 -- ours, as it was then; empty: we had none
    unlinked      boolean     not null default false,                                   -- a link leads to a domain that is proved no more
    updated_at    timestamptz not null,
    outdated      boolean     not null default false,                                   -- ours has changed since
    compared_with text        not null default ''                                       -- the version of ours that says so; empty: none yet
);
-- PostgreSQL 14 cannot treat nulls as one in an index.
create unique index organization_texts_of_organization on organization_texts (org_id, key, language) where org_id is not null;
create unique index organization_texts_of_installation on organization_texts (key, language) where org_id is null;

-- What tells the texts of the installation from all others. No row: there are none.
create table installation_texts (
    only_row boolean primary key default true check (only_row),
    digest   text    not null check (digest ~ '^[0-9a-f]{64}$')
);
