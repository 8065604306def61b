-- additive

-- Documents name plans by their keys. A plan that an older process makes gets its key from its name, as the plans that are there already.
alter table plans add column key text;

create function free_plan_key(service uuid, called text) returns text language plpgsql as $$
declare
    stem   text := coalesce(nullif(trim(both '-' from left(trim(both '-' from regexp_replace(lower(called), '[^a-z0-9]+', '-', 'g')), 40)), ''), 'plan');
    free   text := stem;
    number integer := 2;
begin
    while exists (select from plans where plans.service_id = service and plans.key = free and plans.deleted_at is null) loop
        free := stem || '-' || number;
        number := number + 1;
    end loop;
    return free;
end $$;

do $$
declare
    one record;
begin
    for one in select id, service_id, name from plans order by created_at, id loop
        update plans set key = free_plan_key(one.service_id, one.name) where id = one.id;
    end loop;
end $$;

create function key_plan() returns trigger language plpgsql as $$
begin
    new.key := free_plan_key(new.service_id, new.name);
    return new;
end $$;
create trigger plans_keyed before insert on plans for each row when (new.key is null) execute function key_plan();

alter table plans alter column key set not null;
alter table plans add constraint plans_key_form check (key ~ '^[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?$');
create unique index plans_key on plans (service_id, key) where deleted_at is null;

-- The objects that a configuration document manages.
create table managed_objects (
    org_id          uuid        references all_organizations on delete cascade,  -- null: the installation's
    service         text        not null,                -- the slug; empty outside a service
    kind            text        not null,
    name            text        not null,                -- in documents; empty for an object that is alone of its kind
    object_id       text        not null,                -- by which endpoints name it
    document        text        not null,                -- the digest of the document
    named           text[]      not null,                -- the fields that the document sets
    fields_digest   text        not null,                -- of these fields, as they were then
    managed_at      timestamptz not null,
    managed_by      uuid        references users on delete set null,
    managed_by_key  uuid                                 -- kept when the management key is gone
);
create unique index managed_objects_of_organization on managed_objects (org_id, service, kind, name) where org_id is not null;
create unique index managed_objects_of_installation on managed_objects (service, kind, name) where org_id is null;
create index managed_objects_by_person on managed_objects (managed_by) where managed_by is not null;
