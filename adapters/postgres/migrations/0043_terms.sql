-- additive
--
-- Terms of the installation and of organizations, and who has accepted which. A process of the release before asks nobody and stops nobody.

-- A version stays when the next one follows it: acceptances are of a version.
create table terms (
    id              uuid        primary key default gen_random_uuid(),
    organization_id uuid        references all_organizations (id),     -- null: the installation's
    version         text        not null check (version <> ''),
    address         text        not null check (address like 'https://%'),
    due_at          timestamptz not null,
    set_at          timestamptz not null,
    set_by          uuid        references users (id) on delete set null,
    ended_at        timestamptz                                        -- null: the version in force
);
-- A version is used once, and one is in force at most. Each counts nulls as one, whatever the release of PostgreSQL.
create unique index terms_once on terms (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), version);
create unique index terms_in_force on terms (coalesce(organization_id, '00000000-0000-0000-0000-000000000000')) where ended_at is null;
create index terms_of_organization on terms (organization_id);
create index terms_set_by on terms (set_by);

-- Without a foreign key to sessions: the acceptance outlives the session that it came from.
create table terms_acceptances (
    id              uuid        primary key default gen_random_uuid(),
    user_id         uuid        not null references users (id) on delete cascade,
    terms_id        uuid        not null references terms (id) on delete cascade,
    organization_id uuid        references all_organizations (id),
    accepted_at     timestamptz not null,
    session_id      uuid,
    unique (user_id, terms_id)
);
create index terms_acceptances_of_terms on terms_acceptances (terms_id);
create index terms_acceptances_of_organization on terms_acceptances (organization_id);

-- Whether requests about the organization have to ask for terms at all: its own, or the installation's. Every look-up reads this row anyway.
alter table all_organizations add column asks_terms boolean not null default false;

-- An organization that is made, or arrives, while the installation has terms. Whoever sets those holds the table until they are written.
create function ask_terms_of_installation() returns trigger language plpgsql as $$
begin
    if exists (select from terms where organization_id is null and ended_at is null) then
        new.asks_terms := true;
    end if;
    return new;
end $$;
create trigger organizations_ask_terms before insert on all_organizations for each row execute function ask_terms_of_installation();
