-- additive
--
-- Clients that describe themselves in a document at their own https address (client ID metadata documents). Nothing of it is used before
-- an organization and one of its APIs let such clients in; a process of the release before cannot show the services that are made then.

-- What these addresses published last. One row serves all organizations.
create table metadata_documents (
    id          uuid        primary key,
    url_digest  bytea       not null unique,                -- of `url`, which is long
    url         text        not null check (length(url) <= 500),
    document    jsonb       not null,                       -- the members that are used, checked
    fetched_at  timestamptz not null,
    fresh_until timestamptz not null
);
create index metadata_documents_stale on metadata_documents (fresh_until);

-- The last requests of such clients that were refused before the client was one of the organization's.
create table document_refusals (
    id          uuid        primary key,
    org_id      uuid        not null references all_organizations on delete cascade,
    resource_id uuid        not null references resource_servers on delete cascade,
    address     text        not null,                       -- of the document
    reason      text        not null,
    said        text        not null,                       -- the reason in words
    occurred_at timestamptz not null
);
create index document_refusals_of_resource on document_refusals (resource_id, id desc);
create index document_refusals_of_organization on document_refusals (org_id, id);
create index document_refusals_oldest on document_refusals (occurred_at);

-- Such a client is a service of the organization whose API it asks for. Its client id is the address with the organization's id behind a #,
-- which no address has: the same client is another one in each organization, and nobody can name it but by its document.
alter table all_services drop constraint all_services_service_type_check;
alter table all_services add constraint all_services_service_type_check
    check (service_type in ('web', 'mobile', 'desktop', 'api', 'metadata'));
alter table all_services drop constraint all_services_kept_client_id;
alter table all_services add constraint all_services_kept_client_id check (
    case
        when service_type = 'metadata'
        then deleted_at is not null
          or kept_client_id is not null and kept_client_id like 'https://%#' || org_id and length(kept_client_id) <= 540
        else kept_client_id ~ '^[A-Za-z0-9._~-]{8,80}$' and kept_client_id !~ '^-*([0-9A-Fa-f]-*){32}$'
    end
);
alter table all_services add column document_digest bytea;  -- of what a consent is about: addresses, method and keys in the document

-- The document that the person was shown. The consent counts as long as the document says the same.
alter table resource_consents add column document_digest bytea;

-- Whose documents an organization and its APIs let in: of nobody, of the named hosts, of all.
alter table all_organizations add column metadata_clients text not null default 'off' check (metadata_clients in ('off', 'named', 'any'));
alter table all_organizations add column metadata_hosts text[] not null default '{}';
alter table resource_servers add column metadata_clients text not null default 'off' check (metadata_clients in ('off', 'named', 'any'));
alter table resource_servers add column metadata_hosts text[] not null default '{}';

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata,
           help_url, privacy_url, terms_url, admin_factor, admin_required_since, metadata_clients, metadata_hosts
      from all_organizations
     where deleted_at is null;

-- Whether a document at this host is let in, by the API and by its organization.
create function resource_lets_in_host(resource resource_servers, host text) returns boolean
    language plpgsql volatile as $$
begin
    return (resource.metadata_clients = 'any' or resource.metadata_clients = 'named' and host = any (resource.metadata_hosts))
       and exists (
               select
                 from organizations
                where organizations.id = resource.org_id
                  and (organizations.metadata_clients = 'any'
                    or organizations.metadata_clients = 'named' and host = any (organizations.metadata_hosts))
           );
end $$;

create or replace function resource_admits(resource resource_servers, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (
        select
          from services
         where services.id = service and services.org_id = resource.org_id
           and case
                   when services.service_type = 'metadata'
                   then resource_lets_in_host(resource, split_part(services.kept_client_id, '/', 3))
                   else resource.admits = 'all' or exists (
                       select
                         from resource_admissions as admitted
                        where admitted.resource_id = resource.id and admitted.service_id = service
                   )
               end
    );
end $$;

-- Whether the person's consent is about what the document of the service says now. True for a service that somebody has registered.
create function consent_is_about_document(resource uuid, person uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (
        select
          from all_services as asking
         where asking.id = service
           and (asking.document_digest is null or exists (
                   select
                     from resource_consents as allowed
                    where allowed.user_id = person and allowed.service_id = service and allowed.resource_id = resource
                      and allowed.document_digest = asking.document_digest
               ))
    );
end $$;

-- As before, where the consent is about the document.
create or replace function open_audiences(granted jsonb, person uuid, service uuid, methods text[]) returns jsonb
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
                              and resource_scope_is_held(resource, scope.own, person)
                            order by scope.place
                       )
                   )
               )
          from jsonb_to_recordset(granted) as given (resource_id uuid, scopes text[])
          join resource_servers as resource on resource.id = given.resource_id
         where resource_is_open(resource) and resource_admits(resource, service)
           and consent_is_about_document(resource.id, person, service)
    );
end $$;

create or replace function open_audiences(granted jsonb, person uuid, service uuid) returns jsonb
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
           and consent_is_about_document(resource.id, person, service)
    );
end $$;

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
               )
    );
end $$;
