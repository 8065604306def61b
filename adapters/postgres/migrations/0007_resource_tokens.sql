-- additive
--
-- Codes, sessions and consents know the APIs that they are for. A process of the release before opens sessions without APIs.

-- [{resource_id, identifier, scopes}]; null: for no API. Without a foreign key to the API: a session whose API is gone must not become one
-- for no API.
alter table authorization_codes add column audiences jsonb;
alter table device_codes        add column audiences jsonb;
alter table sessions            add column audiences jsonb;

-- What people allow applications at APIs. A table of its own beside `consents`: a process of the release before gives consents by the
-- person and service alone, and takes back what hangs on them.
create table resource_consents (
    user_id     uuid        not null,
    service_id  uuid        not null,
    resource_id uuid        not null,
    identifier  text        not null,
    scopes      text[]      not null,
    withheld    text[]      not null default '{}',          -- what they refused when they allowed the others
    granted_at  timestamptz not null,
    primary key (user_id, service_id, resource_id),
    foreign key (user_id, service_id) references consents (user_id, service_id) on delete cascade
);
create index resource_consents_of_service on resource_consents (service_id);
create index resource_consents_of_resource on resource_consents (resource_id);

-- The rules of APIs. Functions, because PostgreSQL sets up all parts of a statement at each run, and most codes and sessions are for no API.
-- Those that read are volatile, so they see what others have committed while their statement waited for a lock.

-- Whether tokens are made for the API.
create function resource_is_open(resource resource_servers) returns boolean
    language plpgsql stable as $$
begin
    return resource.identifier like 'http:%'
        or (resource.verified_at is not null or resource.approved_at is not null)
       and (resource.settles_at is null or resource.settles_at <= now());
end $$;

-- Whether the service may ask for them.
create function resource_admits(resource resource_servers, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (select from services where services.id = service and services.org_id = resource.org_id)
       and (resource.admits = 'all' or exists (
               select from resource_admissions as admitted where admitted.resource_id = resource.id and admitted.service_id = service
           ));
end $$;

-- Whether the person holds the permission that one of the API's scopes asks for.
create function resource_scope_is_held(resource resource_servers, scope jsonb, person uuid) returns boolean
    language plpgsql volatile as $$
begin
    return scope ->> 'permission' is null
        or exists (
               select
                 from permissions
                 join services on services.id = permissions.service_id
                where permissions.service_id = resource.service_id and permissions.key = scope ->> 'permission'
           )
       and exists (
               select
                 from service_roles as roles
                where roles.service_id = resource.service_id and scope ->> 'permission' = any (roles.permissions)
                  and (roles.given_to_everybody or roles.id in (
                          select held.object_id from held_service_roles(person, resource.org_id, resource.service_id) as held
                      ))
           );
end $$;

-- The open APIs among the granted ones, with the scopes that the person still holds there: [{id, identifier, scopes, lifetime, algorithm}].
create function open_audiences(granted jsonb, person uuid, service uuid) returns jsonb
    language plpgsql volatile as $$
begin
    return (
        select jsonb_agg(
                   jsonb_build_object(
                       'id', resource.id, 'identifier', resource.identifier, 'lifetime', resource.token_lifetime,
                       'algorithm', resource.access_token_alg,
                       'scopes', array(
                           select scope.own ->> 'name'
                             from jsonb_array_elements(resource.scopes) with ordinality as scope (own, place)
                            where scope.own ->> 'name' = any (given.scopes) and resource_scope_is_held(resource, scope.own, person)
                            order by scope.place
                       )
                   )
               )
          from jsonb_to_recordset(granted) as given (resource_id uuid, scopes text[])
          join resource_servers as resource on resource.id = given.resource_id
         where resource_is_open(resource) and resource_admits(resource, service)
    );
end $$;

-- Whether one API among the open ones is what a request asks for: by its name, or without one if only one was granted.
create function audience_fits(open jsonb, granted jsonb, named text, asked text[]) returns boolean
    language plpgsql immutable as $$
begin
    return (named is not null or jsonb_array_length(granted) = 1) and exists (
        select
          from jsonb_to_recordset(open) as one (identifier text, scopes text[])
         where one.identifier = coalesce(named, one.identifier) and asked <@ one.scopes
    );
end $$;

-- Whether the person allows the service everything that is granted.
create function audiences_are_allowed(granted jsonb, person uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return not exists (
        select
          from jsonb_to_recordset(granted) as given (resource_id uuid, scopes text[])
         where not exists (
                   select
                     from resource_consents as allowed
                    where allowed.user_id = person and allowed.service_id = service
                      and allowed.resource_id = given.resource_id and allowed.scopes @> given.scopes
               )
    );
end $$;
