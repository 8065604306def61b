-- additive
--
-- For ten minutes, what settings were before a page changed them. Secrets are not in it. A process of the release before keeps nothing.

create table changed_settings (
    id              uuid        primary key,
    entry_id        uuid        not null,               -- of `audit_entries`
    organization_id uuid        references all_organizations on delete cascade,   -- null: a setting of the installation
    place           text        not null check (char_length(place) between 1 and 1000),
    section         text        not null check (char_length(section) between 1 and 100),
    before          jsonb       not null,               -- the texts of the form
    after           jsonb       not null,
    earlier         integer     not null,               -- entries about the same thing, ten minutes before and since
    changed_at      timestamptz not null
);
create index changed_settings_by_place on changed_settings (place, changed_at desc);
create index changed_settings_of_organization on changed_settings (organization_id, id) where organization_id is not null;
create index changed_settings_of_entry on changed_settings (entry_id);
create index changed_settings_oldest on changed_settings (changed_at);
