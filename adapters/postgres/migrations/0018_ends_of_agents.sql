-- additive
--
-- An end stays an end. What ended when a service became an agent, or when all of an agent was ended, does not come back with the field; an
-- agent acts by no exchange; and a consent that is about another document exchanges nothing.

create or replace function audiences_are_allowed(granted jsonb, person uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return not exists (
        select
          from jsonb_to_recordset(granted) as given (resource_id uuid, scopes text[])
         where not exists (
                   select
                     from resource_consents as allowed
                     join all_services as asking on asking.id = allowed.service_id
                    where allowed.user_id = person and allowed.service_id = service
                      and allowed.resource_id = given.resource_id and allowed.scopes @> given.scopes
                      and allowed.document_digest is not distinct from asking.document_digest
                      and coalesce(allowed.expires_at > now(), true)
                      and coalesce(allowed.granted_at >= asking.agent_since, true)
               )
    );
end $$;

-- Whether the service may exchange tokens towards the API. No agent may: nobody has let it act there until a date.
create or replace function resource_takes_exchanges(resource resource_servers, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (
               select from services where services.id = service and services.org_id = resource.org_id and not services.is_agent
           )
       and exists (
               select from resource_exchanges as named where named.resource_id = resource.id and named.service_id = service
           );
end $$;

create or replace function session_is_exchangeable(subject sessions, audience uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return subject.exchanged_from is null and audience = subject.service_id and service = subject.service_id
        or exists (
               select
                 from resource_servers
                where resource_servers.id = audience and service in (subject.service_id, resource_servers.service_id)
                  and subject.audiences @> jsonb_build_array(jsonb_build_object('resource_id', audience::text))
                  and (subject.exchanged_from is not null
                    or resource_is_open(resource_servers) and resource_admits(resource_servers, subject.service_id)
                       and consent_is_about_document(resource_servers.id, subject.user_id, subject.service_id))
           );
end $$;
