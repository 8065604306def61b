-- additive
-- Sessions are a tree: one that was opened from another ends with it. And they know when their person last proved who they are.

alter table sessions
    add column parent_id        uuid     references sessions on delete cascade,
    add column depth            smallint not null default 0 check (depth between 0 and 32),
    add column proved_at        timestamptz,
    add column second_factor_at timestamptz,
    add constraint sessions_roots check ((parent_id is null) = (depth = 0));
create index sessions_of_parent on sessions (parent_id) where parent_id is not null;

-- What the second factor completes may have begun with another proof than a password.
alter table preauthentications
    add column provider         text   not null default 'password',
    add column authenticated_by text[] not null default '{pwd}';
