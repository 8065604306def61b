-- additive
--
-- Pictures of looks and of applications. They have tables of their own, beside `logos`: a process of the release before keeps one row
-- of that for each organization, and counts on its key.

-- The pictures that `look` of the organization names, beside the logo.
create table look_pictures (
    id         uuid        primary key,
    org_id     uuid        not null references all_organizations on delete cascade,
    kind       text        not null check (kind in ('dark_logo', 'favicon', 'background')),
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null,
    unique (org_id, kind)
);
create index look_pictures_by_digest on look_pictures (digest);

-- The picture of an application, which `logo_digest` of the service names.
create table service_logos (
    id         uuid        primary key,
    service_id uuid        not null unique references all_services on delete cascade,
    digest     text        not null,
    media_type text        not null,
    content    bytea       not null,
    created_at timestamptz not null
);
create index service_logos_by_digest on service_logos (digest);
