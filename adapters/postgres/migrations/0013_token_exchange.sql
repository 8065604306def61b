-- additive
--
-- Token exchange (RFC 8693). A process of the release before exchanges nothing, and refuses tokens that came of an exchange.

-- The services that may exchange tokens towards a resource server.
create table resource_exchanges (
    id          uuid primary key,
    resource_id uuid not null references resource_servers on delete cascade,
    service_id  uuid not null references all_services on delete cascade,
    unique (resource_id, service_id)
);
create index resource_exchanges_of_service on resource_exchanges (service_id, id);

-- Who acts in the person's name, as tokens say it in `act`: {"sub": client id, "act": …}; null: the person's application and nobody else.
alter table sessions add column act jsonb;
-- The API, or the service, that the exchanged token was for; null: no exchange opened the session.
alter table sessions add column exchanged_from uuid;

-- Whether the service may exchange tokens towards the API.
create function resource_takes_exchanges(resource resource_servers, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (select from services where services.id = service and services.org_id = resource.org_id)
       and exists (
               select from resource_exchanges as named where named.resource_id = resource.id and named.service_id = service
           );
end $$;

-- Whether the service may exchange a token that the session has for an API, or for its own service: the service was given the token, or
-- stands for the API. The API must be open to the person's own application; `exchange_root` looks at those of sessions of exchanges.
create function session_is_exchangeable(subject sessions, audience uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return subject.exchanged_from is null and audience = subject.service_id and service = subject.service_id
        or exists (
               select
                 from resource_servers
                where resource_servers.id = audience and service in (subject.service_id, resource_servers.service_id)
                  and subject.audiences @> jsonb_build_array(jsonb_build_object('resource_id', audience::text))
                  and (subject.exchanged_from is not null
                    or resource_is_open(resource_servers) and resource_admits(resource_servers, subject.service_id))
           );
end $$;

-- The session of the person's own application from which exchanges opened this one; the session itself if none did. Null when a session or
-- an API on the way has ended, or an API no longer names the service that exchanged. Each way is as long as `act` is deep.
create function exchange_root(session uuid, person uuid) returns uuid
    language plpgsql volatile as $$
declare
    one   sessions;
    above sessions;
begin
    select * into one from sessions where sessions.id = session and sessions.user_id = person;
    while one.exchanged_from is not null loop
        select * into above from sessions where sessions.id = one.parent_id and sessions.user_id = person;
        if one.revoked_at is not null or one.expires_at <= now() or one.ends_at <= now()
           or not coalesce(session_is_exchangeable(above, one.exchanged_from, one.service_id), false)
           or not exists (
                  select from resource_servers
                   where resource_servers.id = (one.audiences -> 0 ->> 'resource_id')::uuid
                     and resource_is_open(resource_servers) and resource_takes_exchanges(resource_servers, one.service_id)
              )
        then
            return null;
        end if;
        one := above;
    end loop;
    return one.id;
end $$;

-- The scopes at the API that were allowed on the way to this session; null when nobody has spoken of the API.
create function exchange_bounds(session uuid, resource uuid) returns text[]
    language plpgsql volatile as $$
declare
    one     sessions;
    allowed text[];
begin
    select * into one from sessions where sessions.id = session;
    loop
        select given.scopes into allowed
          from jsonb_to_recordset(one.audiences) as given (resource_id uuid, scopes text[])
         where given.resource_id = resource;
        if found or one.exchanged_from is null then
            return allowed;
        end if;
        select * into one from sessions where sessions.id = one.parent_id;
    end loop;
end $$;
