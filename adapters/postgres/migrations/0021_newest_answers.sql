-- additive
--
-- A person's newest answer about an API counts for sessions of before, and for whatever their application exchanges its tokens for. A process
-- of the release before calls the same functions, so it keeps the answers, too.

-- Whether the organization's trust in its service answers for the person, as at the authorization: nobody asks them there.
create function trust_spares_consent(person uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (
        select
          from services
          join memberships on memberships.org_id = services.org_id and memberships.user_id = person and memberships.own_since is not null
         where services.id = service and services.trusted and not services.is_agent
    );
end $$;

-- The open APIs among the granted ones, with the scopes that the person still holds there, that the sign-in reaches, and that the person has
-- not refused since. An answer about another document says nothing, and one about this document says all. `spared`: no answer of the person
-- was asked for, and none counts.
create function open_audiences(granted jsonb, person uuid, service uuid, methods text[], spared boolean) returns jsonb
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
                            where scope.own ->> 'name' = any (given.scopes) and resource_scope_is_reached(scope.own, methods)
                              and case
                                      when spared or answer.user_id is null then true
                                      when asking.document_digest is null and scope.own ->> 'name' <> all (answer.withheld) then true
                                      when asking.document_digest is not null and scope.own ->> 'name' = any (answer.scopes) then true
                                      else trust_spares_consent(person, service)
                                  end
                              and resource_scope_is_held(resource, scope.own, person)
                            order by scope.place
                       )
                   )
               )
          from jsonb_to_recordset(granted) as given (resource_id uuid, scopes text[])
          join resource_servers as resource on resource.id = given.resource_id
          join all_services as asking on asking.id = service
          left join resource_consents as answer on answer.user_id = person and answer.service_id = service
               and answer.resource_id = given.resource_id
         where resource_is_open(resource) and resource_admits(resource, service)
           and (asking.document_digest is null or answer.document_digest = asking.document_digest)
    );
end $$;

create or replace function open_audiences(granted jsonb, person uuid, service uuid, methods text[]) returns jsonb
    language plpgsql volatile as $$
begin
    return open_audiences(granted, person, service, methods, false);
end $$;

create or replace function open_audiences(granted jsonb, person uuid, service uuid) returns jsonb
    language plpgsql volatile as $$
begin
    return open_audiences(granted, person, service, '{mfa}', false);
end $$;

-- The scopes of the API that the person leaves to a service that exchanges tokens towards it, on a way that begins with this session of the
-- person's own application. Null: it may exchange nothing towards the API.
--
-- The person's own application needs what a code needs: the API admits it, and the person has allowed it there, or trust spares them the
-- question. Other services need the API's word alone, which is not asked here, but get nothing that the person has refused the application.
-- An identity assertion leads to the API that it was used for, and nowhere else.
create function exchange_leaves(root sessions, resource resource_servers, service uuid) returns text[]
    language plpgsql volatile as $$
declare
    answer resource_consents;
    named  text[] := array(select scope ->> 'name' from jsonb_array_elements(resource.scopes) as scope);
begin
    if service = root.service_id and not resource_admits(resource, service) then
        return null;
    end if;
    if root.opened_through is not null and root.audiences is not null then
        return case when root.audiences @> jsonb_build_array(jsonb_build_object('resource_id', resource.id::text)) then named end;
    end if;
    select * into answer
      from resource_consents as given
     where given.user_id = root.user_id and given.service_id = root.service_id and given.resource_id = resource.id;
    if service is distinct from root.service_id then
        return array(select name from unnest(named) as name where name <> all (coalesce(answer.withheld, '{}')));
    end if;
    if trust_spares_consent(root.user_id, service) then
        return named;
    end if;
    if not audiences_are_allowed(
        jsonb_build_array(jsonb_build_object('resource_id', resource.id, 'scopes', '[]'::jsonb)), root.user_id, service
    ) then
        return null;
    end if;
    return answer.scopes;
end $$;

-- As before, where the person and the assertion also leave each service on the way its API, and none of the services was an agent meanwhile.
create or replace function exchange_root(session uuid, person uuid) returns uuid
    language plpgsql volatile as $$
declare
    one   sessions;
    above sessions;
    hops  sessions[] := '{}';
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
           or exists (select from services where services.id = one.service_id and one.created_at < services.agent_since)
        then
            return null;
        end if;
        hops := hops || one;
        one := above;
    end loop;
    if exists (
        select
          from unnest(hops) as hop
          join resource_servers on resource_servers.id = (hop.audiences -> 0 ->> 'resource_id')::uuid
         where exchange_leaves(one, resource_servers, hop.service_id) is null
    ) then
        return null;
    end if;
    return one.id;
end $$;
