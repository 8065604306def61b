-- edition 17
--
-- The views and functions that nothing in the schema is built on: no index, default, check or trigger uses them. A change of them is a change
-- of this file, and no migration: raise the number in the first line, and `migrate` replaces all of them, after the migrations and in one
-- transaction. Only a higher number replaces a lower one (docs/decisions/0173).
--
-- A process of the release before goes on calling and reading them. So a view gains columns at its end, and a function keeps its arguments
-- and its result; what needs others is a new function. What nothing uses any more, one release later, leaves this file and goes by a migration.

-- What is there, and not deleted.

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata,
           help_url, privacy_url, terms_url, admin_factor, admin_required_since, metadata_clients, metadata_hosts, agents, agents_since,
           registered_clients, shortest_password, breached_at_sign_in, session_idle_minutes, most_sessions, risk_policies, risk_exceptions,
           risk_counts_since, registration_policy, registration_domains, all_factor, all_factor_role_id, all_required_since, passkey_offers,
           asks_terms, afar_since, look, languages, texts_digest, approved_texts
      from all_organizations
     where deleted_at is null;

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata,
           assertion_audience, access_token_alg, kept_client_id, coalesce(kept_client_id, client_id::text) as oauth_client_id,
           is_agent, agent_since, session_lifetime_hours, session_idle_minutes, most_sessions, dpop_bound_access_tokens,
           frontchannel_logout_uri, frontchannel_logout_session_required, profile, logo_digest, initiate_login_uri
      from all_services
     where deleted_at is null;

create or replace view profile_fields as
    select id, org_id, key, label, kind, rule, written_by, scope, required, asked_at, position, created_at, updated_at
      from all_profile_fields
     where deleted_at is null;

-- Entries as they are read: with the part that is set apart, as long as it is not forgotten.
create or replace view audit_log as
    select entries.id, entries.organization_id, entries.actor_id, entries.impersonator_id, entries.action, entries.target_type,
           entries.target_id, personal.address, personal.user_agent, entries.success,
           entries.details || coalesce(personal.details, '{}') as details, entries.created_at
      from audit_entries as entries
      left join audit_personal as personal on personal.entry_id = entries.id;

-- For a process of a release that cannot read the fourth purpose.
create or replace view all_signing_keys as
    select id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at, retires_at
      from signing_keys
     where purpose in ('access', 'id', 'id_es256');

-- The fields that pages ask for.

-- Whether a page has to ask a person for a field. `since`: when the person came to the keeper of the field. PostgreSQL makes it a part of the
-- statement that asks.
create or replace function is_to_be_asked(field profile_fields, kept profile_values, since timestamptz) returns boolean
    language sql stable as $$
    select (field.asked_at = 'sign_in' or field.asked_at = 'registration' and since >= field.created_at)
       and (kept.values is null or not kept.values ? field.id::text)
       and (field.required or kept.asked is null or field.id <> all (kept.asked))
$$;

-- Whether the page that asks for fields may have something to ask this person, in the flow of this id. The page itself reads the fields, and
-- leaves out those of an organization whose service does not admit the person. A function and not a part of the statement that asks, since
-- PostgreSQL sets up all parts of a statement at each run, and an installation where nobody asks for a field needs none of this. It is volatile,
-- so it sees what others have committed while its statement waited for a lock.
create or replace function owes_answers(person uuid, account_created_at timestamptz, flow uuid) returns boolean
    language plpgsql volatile as $$
begin
    if not exists (select from profile_fields where asked_at is not null) then
        return false;
    end if;
    return exists (
               select
                 from profile_fields as fields
                 left join profile_values on profile_values.user_id = person and profile_values.org_id is null
                where fields.org_id is null and fields.asked_at is not null and is_to_be_asked(fields, profile_values, account_created_at)
           )
        or exists (
               select
                 from memberships
                 join profile_fields as fields on fields.org_id = memberships.org_id and fields.asked_at is not null
                 left join profile_values on profile_values.user_id = person and profile_values.org_id = fields.org_id
                where memberships.user_id = person and is_to_be_asked(fields, profile_values, memberships.created_at)
           )
        or exists (
               select
                 from flows
                 join services on services.id = flows.service_id
                 join profile_fields as fields on fields.org_id = services.org_id and fields.asked_at is not null
                 left join profile_values on profile_values.user_id = person and profile_values.org_id = fields.org_id
                where flows.id = flow and is_to_be_asked(fields, profile_values, now())
           );
end $$;

-- The roles of services.

-- What gives a person roles of a service: the person's own assignments, and those of the organization's roles and of the teams that the person
-- has. A role of the organization also comes by a team that carries it. PostgreSQL makes it a part of the statement that asks.
create or replace function held_service_roles(person uuid, organization uuid, service uuid) returns setof relations
    language sql stable as $$
      with carried as (
               select memberships.role, memberships.role_id
                 from memberships
                where memberships.org_id = organization and memberships.user_id = person
                union
               select teams.role, teams.role_id
                 from team_members
                 join teams on teams.id = team_members.team_id
                where team_members.user_id = person and team_members.org_id = organization and teams.role is not null
           )
    select relations.*
      from relations
     where relations.user_id = person and relations.organization_id = organization and relations.service_id = service
     union all
    select relations.*
      from carried
      join relations on relations.role_id = carried.role_id and relations.service_id = service
     union all
    select relations.*
      from carried
      join relations on relations.organization_id = organization and relations.built_in_role = carried.role and relations.service_id = service
     where carried.role_id is null
     union all
    select relations.*
      from team_members
      join relations on relations.team_id = team_members.team_id and relations.service_id = service
     where team_members.user_id = person and team_members.org_id = organization;
$$;

-- Whether there is any. A function that is no part of the statement that asks, since PostgreSQL sets up all parts of a statement at each run, and
-- this one is needed by services alone that ask for a role. It is volatile, so it sees what others have committed while its statement waited for
-- a lock.
create or replace function holds_service_role(person uuid, organization uuid, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (select from held_service_roles(person, organization, service));
end $$;

-- Passkeys. Functions and no part of the statements that ask, since PostgreSQL sets up all parts of a statement at each run, and most
-- organizations ask for no passkey. They are volatile, so they see what others have committed while their statement waited for a lock.

-- Whether an organization's demand, `all_factor` with its role, reaches a member. Whoever signs in to the role's service holds a role that is
-- given to everybody.
create or replace function must_have_passkey(demand text, role uuid, organization uuid, member uuid) returns boolean
    language plpgsql volatile as $$
begin
    return demand = 'passkey' or demand = 'role_passkey' and exists (
               select
                 from service_roles
                 join services on services.id = service_roles.service_id
                where service_roles.id = role and service_roles.org_id = organization
                  and (service_roles.given_to_everybody or exists (
                          select
                            from held_service_roles(member, organization, service_roles.service_id) as held
                           where held.object_type = 'service_role' and held.object_id = service_roles.id
                      ))
           );
end $$;

-- Whether the demand reaches a member while the account that acts lacks what it asks for: a second factor, and a passkey.
create or replace function owes_passkey(demand text, role uuid, organization uuid, member uuid, person uuid) returns boolean
    language plpgsql volatile as $$
begin
    if exists (select from passkeys where user_id = person)
       and (exists (select from passkeys where user_id = person and second_factor_since is not null)
            or exists (select from mfa_secrets where user_id = person and enabled_at is not null)) then
        return false;
    end if;
    return must_have_passkey(demand, role, organization, member);
end $$;

-- Whether a person who has signed in by a password is to be offered a passkey: one who has none, whose domain lets its people sign in with one,
-- and whom none of the organizations that they belong to by their own act wants to be left alone.
create or replace function may_be_offered_passkey(person uuid) returns boolean
    language plpgsql volatile as $$
begin
    return not exists (select from passkeys where user_id = person)
       and not exists (
               select
                 from users
                 join domain_routes on domain_routes.domain = substring(users.email_key from '[^@]*$')
                 join organizations on organizations.id = domain_routes.org_id
                where users.id = person and domain_routes.verified_at is not null and domain_routes.login_policy <> 'password_allowed'
                  and organizations.status = 'active'
           )
       and not exists (
               select
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = person and memberships.own_since is not null and organizations.status = 'active'
                  and not organizations.passkey_offers
           );
end $$;

-- The rules of APIs. Functions, because PostgreSQL sets up all parts of a statement at each run, and most codes and sessions are for no API.
-- Those that read are volatile, so they see what others have committed while their statement waited for a lock.

-- Whether tokens are made for the API.
create or replace function resource_is_open(resource resource_servers) returns boolean
    language plpgsql stable as $$
begin
    return resource.identifier like 'http:%'
        or (resource.verified_at is not null or resource.approved_at is not null)
       and (resource.settles_at is null or resource.settles_at <= now());
end $$;

-- Whether a document at this host is let in, by the API and by its organization.
create or replace function resource_lets_in_host(resource resource_servers, host text) returns boolean
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

-- Whether an open client that sends people to these hosts is let in, by the API and by its organization.
create or replace function resource_lets_in_open(resource resource_servers, leads_to text[]) returns boolean
    language plpgsql volatile as $$
begin
    return resource.registered_clients = 'on' and leads_to <@ resource.metadata_hosts
       and exists (
               select
                 from organizations
                where organizations.id = resource.org_id
                  and organizations.registered_clients = 'on' and leads_to <@ organizations.metadata_hosts
           );
end $$;

-- The same for the service that such a client is, or one with a document.
create or replace function resource_lets_in_client(resource resource_servers, client text, redirect_uris text[]) returns boolean
    language plpgsql volatile as $$
begin
    if starts_with(client, 'open:') then
        return resource_lets_in_open(resource, array(
            select split_part(split_part(uri, '/', 3), '?', 1) from unnest(redirect_uris) as uri where starts_with(uri, 'https://')
        ));
    end if;
    return resource_lets_in_host(resource, split_part(client, '/', 3));
end $$;

-- Whether the service may ask for them.
create or replace function resource_admits(resource resource_servers, service uuid) returns boolean
    language plpgsql volatile as $$
begin
    return exists (
        select
          from services
         where services.id = service and services.org_id = resource.org_id
           and case
                   when services.service_type = 'metadata'
                   then resource_lets_in_client(resource, services.kept_client_id, services.redirect_uris)
                   else resource.admits = 'all' or exists (
                       select
                         from resource_admissions as admitted
                        where admitted.resource_id = resource.id and admitted.service_id = service
                   )
               end
    );
end $$;

-- Whether the person holds the permission that one of the API's scopes asks for. Most ask for none, and then nothing has to be looked up: as
-- one expression, the rule would set its look-ups up all the same.
create or replace function resource_scope_is_held(resource resource_servers, scope jsonb, person uuid) returns boolean
    language plpgsql volatile as $$
begin
    if scope ->> 'permission' is null then
        return true;
    end if;
    return exists (
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

-- Whether a sign-in by these methods reaches what one of the API's scopes asks for. Only a second factor can be asked for.
create or replace function resource_scope_is_reached(scope jsonb, methods text[]) returns boolean
    language plpgsql immutable as $$
begin
    return coalesce(scope -> 'acr_values', '[]') = '[]' or 'mfa' = any (methods);
end $$;

-- Whether the person's consent is about what the document of the service says now. True for a service that somebody has registered.
create or replace function consent_is_about_document(resource uuid, person uuid, service uuid) returns boolean
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

-- Whether the organization's trust in its service answers for the person, as at the authorization: nobody asks them there.
create or replace function trust_spares_consent(person uuid, service uuid) returns boolean
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
-- not refused since: [{id, identifier, scopes, lifetime, algorithm}]. An answer about another document says nothing, and one about this
-- document says all. `spared`: no answer of the person was asked for, and none counts.
create or replace function open_audiences(granted jsonb, person uuid, service uuid, methods text[], spared boolean) returns jsonb
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

-- Whether one API among the open ones is what a request asks for: by its name, or without one if only one was granted.
create or replace function audience_fits(open jsonb, granted jsonb, named text, asked text[]) returns boolean
    language plpgsql immutable as $$
begin
    return (named is not null or jsonb_array_length(granted) = 1) and exists (
        select
          from jsonb_to_recordset(open) as one (identifier text, scopes text[])
         where one.identifier = coalesce(named, one.identifier) and asked <@ one.scopes
    );
end $$;

-- Whether the person allows the service everything that is granted. A consent that has ended counts as none, and so does one of before the
-- service became an agent.
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

-- The exchange of tokens.

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

-- Whether the service may exchange a token that the session has for an API, or for its own service: the service was given the token, or
-- stands for the API. The API must be open to the person's own application; `exchange_root` looks at those of sessions of exchanges.
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

-- The scopes of the API that the person leaves to a service that exchanges tokens towards it, on a way that begins with this session of the
-- person's own application. Null: it may exchange nothing towards the API.
--
-- The person's own application needs what a code needs: the API admits it, and the person has allowed it there, or trust spares them the
-- question. Other services need the API's word alone, which is not asked here, but get nothing that the person has refused the application.
-- An identity assertion leads to the API that it was used for, and nowhere else.
create or replace function exchange_leaves(root sessions, resource resource_servers, service uuid) returns text[]
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

-- The session of the person's own application from which exchanges opened this one; the session itself if none did. Null when a session or
-- an API on the way has ended, or an API no longer names the service that exchanged; when the person or the assertion no longer leaves a
-- service on the way its API; or when one of the services was an agent meanwhile. Each way is as long as `act` is deep.
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

-- The scopes at the API that were allowed on the way to this session; null when nobody has spoken of the API.
create or replace function exchange_bounds(session uuid, resource uuid) returns text[]
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

-- Agents.

-- Whether the consent lets an agent act. Only statements about agents call it.
create or replace function agent_consent_lives(consent resource_consents) returns boolean
    language plpgsql volatile as $$
begin
    return consent.expires_at > now() and exists (
        select
          from services
          join organizations on organizations.id = services.org_id
         where services.id = consent.service_id and services.is_agent and organizations.agents = 'allowed'
           and consent.granted_at >= greatest(services.agent_since, organizations.agents_since, '-infinity')
    );
end $$;

-- Until when an agent may act for the person by what a code or session was granted, which began at that time. Null: it may not, because it
-- was granted no API or several, the person does not allow it everything any more, or an end came in between.
create or replace function agent_acts_until(granted jsonb, person uuid, service uuid, began timestamptz) returns timestamptz
    language plpgsql volatile as $$
begin
    if jsonb_array_length(granted) is distinct from 1 then
        return null;
    end if;
    return (
        select allowed.expires_at
          from resource_consents as allowed
          join services on services.id = allowed.service_id
          join organizations on organizations.id = services.org_id
         where allowed.user_id = person and allowed.service_id = service
           and allowed.resource_id = (granted #>> '{0,resource_id}')::uuid
           and allowed.scopes @> array(select jsonb_array_elements_text(granted #> '{0,scopes}'))
           and began >= greatest(services.agent_since, organizations.agents_since, '-infinity')
           and agent_consent_lives(allowed)
    );
end $$;

-- The parts of the tables that are cut by time. They stand in a schema of their own, which nobody but these functions names.

-- The smallest id that begins with this moment. Ids are UUIDv7, and a delivery is cut by the id of its event.
create or replace function first_id_of(moment timestamptz) returns uuid language sql immutable strict as $$
    select (lpad(to_hex(greatest(floor(extract(epoch from moment) * 1000)::bigint, 0)), 12, '0') || repeat('0', 20))::uuid
$$;

-- The parts of a table. `first` is null for what was there before; both bounds are null for the part of all that belongs to no other part.
create or replace function partitions_of(parent text) returns table (name text, first uuid, last uuid, is_rest boolean) language sql stable as $$
    select part.relname::text,
           substring(pg_get_expr(part.relpartbound, part.oid) from 'FROM \(''([0-9a-f-]+)''\)')::uuid,
           substring(pg_get_expr(part.relpartbound, part.oid) from 'TO \(''([0-9a-f-]+)''\)')::uuid,
           pg_get_expr(part.relpartbound, part.oid) = 'DEFAULT'
      from pg_inherits
      join pg_class as part on part.oid = inhrelid
     where inhparent = to_regclass(parent)
$$;

-- What the table is cut by.
create or replace function partition_key(parent text) returns text language sql immutable strict as $$
    select case parent when 'login_events' then 'id' when 'events' then 'id' when 'webhook_deliveries' then 'event_id' end
$$;

-- Why the server's clock cannot be believed, or null. Nothing is deleted for its age meanwhile. `theirs` is the time of the process that asks,
-- or null. Something is written every day: a sample of the tables' sizes at least. What the last hour has written is no witness, since the
-- clock may have been wrong already.
create or replace function doubt_of_clock(theirs timestamptz) returns text language sql stable set search_path = public, pg_temp as $$
    select case
               when abs(extract(epoch from now() - theirs)) > 30 then 'apart'
               when not (
                        exists (select from events where id >= since and id < until)
                        or exists (select from login_events where id >= since and id < until)
                        or exists (select from storage_samples where day >= today - 2 and day < today)
                    )
                    and (
                        exists (select from events where id < since)
                        or exists (select from login_events where id < since)
                        or exists (select from storage_samples where day < today - 2)
                    )
                   then 'unseen'
           end
      from (select first_id_of(now() - interval '2 days') as since, first_id_of(now() - interval '1 hour') as until,
                   (now() at time zone 'UTC')::date as today) as bounds
$$;

-- These run as the owner of the tables, since the role that serves owns none. Whoever may delete the rows may call them.
create or replace function require_partitioned(parent text) returns void language plpgsql as $$
begin
    if partition_key(parent) is null or not has_table_privilege(session_user, parent, 'delete') then
        raise insufficient_privilege using message = format('%s has no parts that %s may change', parent, session_user);
    end if;
end $$;

-- Makes the parts of this month and of as many further months. Returns their names. Rows that have come already move from the rest.
create or replace function make_partitions(parent text, months integer) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    month timestamp;
    lower uuid;
    upper uuid;
    made  text;
    late  boolean;
begin
    perform require_partitioned(parent);
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for number in 0..least(months, 12) loop
        month := date_trunc('month', now() at time zone 'UTC') + make_interval(months => number);
        lower := first_id_of(month at time zone 'UTC');
        upper := first_id_of((month + interval '1 month') at time zone 'UTC');
        continue when exists (
            select from partitions_of(parent) as part
             where not part.is_rest and part.last > lower and (part.first is null or part.first < upper)
        );
        made := parent || to_char(month, '"_"YYYY"_"MM');
        -- Writers would wait too long for so many rows to move, so they stay where they are, until they are swept.
        execute format(
            'select exists (select from partitions.%1$I where %2$I >= %3$L and %2$I < %4$L offset 50000)',
            parent || '_rest', partition_key(parent), lower, upper
        ) into late;
        continue when late;
        begin
            -- Writers wait, and find the new part afterwards. What would still go to the rest would forbid the part, or be refused.
            execute format('lock table only public.%I in share row exclusive mode', parent);
            execute format('create table partitions.%I (like public.%I including defaults)', made, parent);
            if parent = 'webhook_deliveries' then
                execute format(
                    'alter table partitions.%I set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500)',
                    made
                );
            end if;
            execute format(
                'with moved as (delete from partitions.%1$I where %2$I >= %3$L and %2$I < %4$L returning *)'
                ' insert into partitions.%5$I select * from moved',
                parent || '_rest', partition_key(parent), lower, upper, made
            );
            execute format('alter table public.%I attach partition partitions.%I for values from (%L) to (%L)', parent, made, lower, upper);
        exception
            when lock_not_available then
                -- A long statement reads the table. The next call tries again.
                return;
            when duplicate_table then
                -- Somebody has put a table in the way. The rows of this month go to the rest.
                continue;
        end;
        return next made;
    end loop;
end $$;

-- The months ahead that have no part, since somebody has put a table of this name there.
create or replace function partitions_in_the_way(parent text, months integer) returns setof text language sql stable
    set search_path = public, pg_temp as $$
    select relname::text
      from generate_series(0, least(months, 12)) as number
      join pg_class on relname = parent || to_char(date_trunc('month', now() at time zone 'UTC') + make_interval(months => number), '"_"YYYY"_"MM')
     where relnamespace = to_regnamespace('partitions')
       and not exists (select from pg_inherits where inhrelid = pg_class.oid and inhparent = to_regclass(parent))
     order by number
$$;

-- Drops the oldest part whose last row is older than this, but for those that are needed: a delivery in it waits or is younger than this, or
-- a delivery tells an event in it. Drops none for a process that is up for less than an hour, nor while the clock cannot be believed. Returns
-- its name.
create or replace function drop_partitions(parent text, kept interval, up interval default '0', theirs timestamptz default null) returns setof text
    language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '200ms' as $$
declare
    part   record;
    need   text;
    needed boolean;
begin
    perform require_partitioned(parent);
    if up < interval '1 hour' or doubt_of_clock(theirs) is not null then
        return;
    end if;
    if not pg_try_advisory_xact_lock(hashtext('partitions of ' || parent)) then
        return;
    end if;
    for part in
        select * from partitions_of(parent) as one where not one.is_rest and one.last <= first_id_of(now() - kept) order by one.last
    loop
        need := case parent
            when 'webhook_deliveries' then format(
                'select exists (select from partitions.%1$I where next_at is not null)'
                ' or exists (select from partitions.%1$I where created_at >= %2$L)',
                part.name, now() - kept
            )
            when 'events' then format(
                'select exists (select from public.webhook_deliveries where event_id >= %L and event_id < %L)',
                coalesce(part.first, '00000000-0000-0000-0000-000000000000'), part.last
            )
            else 'select false'
        end;
        begin
            execute need into needed;
            continue when needed;
            execute format('alter table public.%I detach partition partitions.%I', parent, part.name);
            -- Asked again: nobody else can write to it now.
            execute need into needed;
            if needed then
                raise lock_not_available;
            end if;
            execute format('drop table partitions.%I', part.name);
            -- One at a time: a mistake must not cost all months.
            return next part.name;
            exit;
        exception
            when lock_not_available then
                -- Somebody reads it, or has begun to wait for it. The next call tries again: each try lets all others wait for a moment.
                exit;
            when dependent_objects_still_exist then
                -- Somebody has made a view of it. Its rows are swept.
                continue;
        end;
    end loop;
end $$;

-- Deletes a batch of rows that are older than this from the parts that no month bounds: what was there before, and the rest. So it does from
-- a month that is over for a week and that one organization still needs: that must not keep the rows of all others. An event stays while a
-- delivery tells it, and a delivery while it waits.
create or replace function sweep_partitions(parent text, kept interval, most integer) returns bigint
    language plpgsql security definer set search_path = public, pg_temp as $$
declare
    part  record;
    past  uuid[];
    swept bigint := 0;
    one   bigint;
    need  text := case parent
        when 'events' then
            'exists (select from webhooks'
            ' join webhook_deliveries on webhook_deliveries.webhook_id = webhooks.id and webhook_deliveries.event_id = part.id'
            ' where webhooks.org_id = part.organization_id offset 0)'
        when 'webhook_deliveries' then '(next_at is not null)'
        else 'false'
    end;
begin
    perform require_partitioned(parent);
    if doubt_of_clock(null) is not null then
        return 0;
    end if;
    for part in
        select * from partitions_of(parent) as one
         where one.is_rest or one.first is null or one.last <= first_id_of(now() - kept - interval '7 days')
    loop
        begin
            execute format(
                'select array(select id from partitions.%I as part where %s and not %s order by %I limit %L for update skip locked)',
                part.name,
                case when parent = 'events'
                    then format('id < %L and occurred_at < now() - %L::interval', first_id_of(now() - kept), kept)
                    else format('created_at < now() - %L::interval', kept)
                end,
                need,
                case when parent = 'events' then 'id' else 'created_at' end,
                most - swept
            ) into past;
            -- Asked again: this statement sees what a replay has committed before the rows were locked.
            execute format('delete from partitions.%I as part where id = any ($1) and not %s', part.name, need) using past;
            get diagnostics one = row_count;
            swept := swept + one;
        exception when undefined_table then
            -- Somebody has just dropped it.
            null;
        end;
        exit when swept >= most;
    end loop;
    return swept;
end $$;

-- Terms.

-- Until when the person may go on without having accepted the terms of this organization and of the installation; null if nothing is missing.
-- With null for the organization, the installation's alone. Functions, since PostgreSQL sets up all parts of a statement at each run, and
-- statements call them where terms are asked for. They are volatile, so they see what others have committed while their statement waited for a
-- lock.
create or replace function terms_due(person uuid, entered uuid) returns timestamptz
    language plpgsql volatile as $$
begin
    return (
        select min(terms.due_at)
          from terms
         where terms.ended_at is null and (terms.organization_id is null or terms.organization_id = entered)
           and not exists (
                   select from terms_acceptances as accepted where accepted.user_id = person and accepted.terms_id = terms.id
               )
    );
end $$;

-- What the person has not accepted: of the installation, of the organization that a sign-in leads to, and of those that the person belongs to
-- by their own act. An organization that merely lists somebody puts no page before them.
create or replace function terms_pending(person uuid, entered uuid) returns jsonb
    language plpgsql volatile as $$
begin
    if not exists (select from terms where terms.ended_at is null) then
        return null;
    end if;
    return (
        select jsonb_agg(
                   jsonb_build_object(
                       'id', terms.id, 'organization', terms.organization_id, 'organization_slug', organizations.slug,
                       'organization_name', organizations.name, 'version', terms.version, 'address', terms.address,
                       'due_at', terms.due_at, 'is_over', terms.due_at <= now()
                   )
                   order by organizations.name nulls first, terms.id
               )
          from terms
          left join organizations on organizations.id = terms.organization_id
         where terms.ended_at is null
           and (terms.organization_id is null
             or organizations.id = entered
             or organizations.status = 'active' and organizations.id in (
                    select memberships.org_id from memberships where memberships.user_id = person and memberships.own_since is not null
                ))
           and not exists (
                   select from terms_acceptances as accepted where accepted.user_id = person and accepted.terms_id = terms.id
               )
    );
end $$;

-- Rules for risk.

-- The rules for risk that a sign-in of this person has to be judged by: the installation's, those of the organization that it leads to, and of
-- the organizations that the person belongs to. Nothing where none counts, as for most people. A function and not a part of the last look,
-- since PostgreSQL sets up all parts of a statement at each run. Of a person whom an organization merely lists, it gives what that organization
-- has seen itself: of the last sign-ins that were good, and of the last tries, so that tries of strangers push no sign-in out. Anybody can list
-- a person, so no more than ten such organizations are asked, those that have listed the person for longest.
create or replace function risk_rules_asked(person uuid, entered uuid) returns jsonb
    language plpgsql stable as $$
declare
    of_installation jsonb;
begin
    if exists (select from installation_risk_policies where counts_since is not null) then
        select jsonb_build_array(
                   jsonb_build_object(
                       'organization', null,
                       'policies', policies,
                       'exceptions', exceptions,
                       'is_own', true,
                       'role', (select 'platform_owner' from users where id = person and is_platform_owner),
                       'teams', '[]'::jsonb,
                       'seen', array(
                           select jsonb_build_array(extract(epoch from created_at), country, device_id, null, spot)
                             from (
                                      select *
                                        from login_events
                                       where user_id = person and success and not flagged
                                       order by id desc
                                       limit 200
                                  ) as latest
                            where country is not null or spot is not null
                            order by id desc
                            limit 1
                       )
                   )
               )
          into of_installation
          from installation_risk_policies
         where counts_since is not null;
    end if;
    if not exists (select from all_organizations where id = entered and risk_counts_since is not null)
       and not exists (
               select
                 from memberships
                 join all_organizations as mine on mine.id = memberships.org_id
                where memberships.user_id = person and mine.risk_counts_since is not null
           )
    then
        return of_installation;
    end if;
    return coalesce(of_installation, '[]') || coalesce((
               select jsonb_agg(
                          jsonb_build_object(
                              'organization', mine.id,
                              'policies', mine.risk_policies,
                              'exceptions', mine.risk_exceptions,
                              'is_own', memberships.own_since is not null,
                              'role', memberships.role,
                              'teams', array(
                                  select team_id from team_members where team_members.org_id = mine.id and team_members.user_id = person
                              ),
                              'seen', case
                                  when memberships.own_since is not null
                                  then array(
                                           select jsonb_build_array(extract(epoch from created_at), country, device_id, null, spot)
                                             from (
                                                      select *
                                                        from login_events
                                                       where user_id = person and success and not flagged
                                                       order by id desc
                                                       limit 200
                                                  ) as latest
                                            where country is not null or spot is not null
                                            order by id desc
                                            limit 1
                                       )
                                  else array(
                                           select jsonb_build_array(extract(epoch from created_at), country, device_id, reason, spot)
                                             from (
                                                      (
                                                          select *
                                                            from login_events
                                                           where user_id = person and success and not flagged
                                                           order by id desc
                                                           limit 200
                                                      )
                                                       union all
                                                      (
                                                          select *
                                                            from login_events
                                                           where user_id = person and not success
                                                           order by id desc
                                                           limit 50
                                                      )
                                                  ) as latest
                                            where latest.organization_id = mine.id
                                            order by id desc
                                            limit 50
                                       )
                              end
                          )
                      )
                 from (
                          select entered as id
                           union
                          select org_id from memberships as own where own.user_id = person and own.own_since is not null
                           union
                          (
                              select ties.org_id
                                from memberships as ties
                                join all_organizations as lists on lists.id = ties.org_id
                               where ties.user_id = person and ties.own_since is null and lists.risk_counts_since is not null
                               order by ties.created_at, ties.org_id
                               limit 10
                          )
                      ) as asked
                 join organizations as mine on mine.id = asked.id
                 left join memberships on memberships.org_id = mine.id and memberships.user_id = person
                where mine.risk_counts_since is not null and mine.status = 'active'
           ), '[]');
end $$;

-- Whether the second factor that a directory has stated for a session counts for this organization's rule at this moment: the directory is the
-- organization's own and on, and an owner still lets the value count. A function and not a part of the statements that ask, since PostgreSQL
-- sets up all parts of a statement at each run, and few sessions have a value.
create or replace function directory_factor_counts(directory uuid, stated text, organization uuid) returns boolean
    language plpgsql stable as $$
begin
    return exists (
        select
          from upstream_providers
         where upstream_providers.id = directory and upstream_providers.org_id = organization and upstream_providers.enabled
           and stated = any (upstream_providers.second_factor_values)
    );
end $$;

-- Hooks before a sign-in (docs/decisions/0239-hooks-before-a-sign-in.md).

-- Whether hooks at a door of the organization may hear of the person: by an act of their own they are a member, or use the application.
create or replace function hooks_hear_of(person uuid, organization uuid, service uuid) returns boolean
    language sql stable as $$
    select exists (select from memberships where memberships.user_id = person and org_id = organization and own_since is not null offset 0)
        or exists (select from consents where consents.user_id = person and consents.service_id = service offset 0)
        or exists (
               select from service_users
                where service_users.user_id = person and service_users.service_id = service and own_since is not null
               offset 0
           )
$$;

-- An owner gets in whatever a hook says: otherwise nobody could take a wrong hook away.
create or replace function hooks_let_in_owner(person uuid, organization uuid) returns boolean
    language sql stable as $$
    select exists (select from memberships where memberships.user_id = person and org_id = organization and role = 'owner' offset 0)
        or exists (select from users where id = person and is_platform_owner)
$$;

-- What a hook has said of a session, and of those that it was opened from, each with the moment of the question: a no about the organization,
-- and a yes, a demand for a factor and a silence at the application, or at the console where none is named. A release before kept one verdict
-- for an organization, so its yes is about all of it. A function of small statements, so that a door where no hook counts pays for nothing.
create or replace function hooks_said(
        asked uuid, counts_as uuid, organization uuid, service uuid, out no_at double precision, out yes_at double precision,
        out owed_at double precision, out silent_at double precision
    )
    language plpgsql stable as $$
declare
    above uuid := asked;
    kept jsonb;
    said jsonb;
    everywhere text := counts_as || '/' || organization;
    here text := counts_as || '/' || organization || '/' || coalesce(service::text, 'console');
begin
    while above is not null loop
        select hook_verdicts, parent_id into kept, above from sessions where id = above;
        said := kept -> everywhere;
        if (said ->> 'no')::boolean then
            no_at := greatest(no_at, (said ->> 'at')::double precision);
        else
            yes_at := greatest(yes_at, (said ->> 'at')::double precision);
        end if;
        said := kept -> here;
        if said ->> 'said' = 'owed' then
            owed_at := greatest(owed_at, (said ->> 'at')::double precision);
        else
            yes_at := greatest(yes_at, (said ->> 'at')::double precision);
        end if;
        silent_at := greatest(silent_at, (kept -> (here || '/silence') ->> 'at')::double precision);
    end loop;
end $$;

-- What hooks have against a session at a door of the organization: 'no', or 'unasked' where no hook has let it in within twelve hours and
-- `looks_at_age`. Null: nothing. A no closes the organization, except where a later yes has taken it back. A silence opens for five minutes,
-- and stands over neither a no nor a demand.
create or replace function hooks_keep_out(asked uuid, person uuid, organization uuid, service uuid, looks_at_age boolean) returns text
    language plpgsql stable as $$
declare
    hook record;
    said record;
    against text;
begin
    if organization is null then
        return null;
    end if;
    for hook in select counts_as from hooks where counts_as is not null and (org_id = organization or org_id is null) loop
        select * into said from hooks_said(asked, hook.counts_as, organization, service);
        if said.no_at is not null and (said.yes_at is null or said.yes_at <= said.no_at) then
            against := 'no';
            exit;
        elsif looks_at_age
            and (said.yes_at is null or said.yes_at <= said.owed_at or to_timestamp(said.yes_at) <= now() - interval '12 hours')
            and (said.silent_at is null or said.silent_at <= greatest(said.no_at, said.owed_at)
                 or to_timestamp(said.silent_at) <= now() - interval '5 minutes')
        then
            against := 'unasked';
        end if;
    end loop;
    if against is null or not hooks_hear_of(person, organization, service) or hooks_let_in_owner(person, organization) then
        return null;
    end if;
    return against;
end $$;

-- Since when a session is in at a door by the silence of a hook alone: what is opened there ends twelve hours later. Null: by no silence.
create or replace function hooks_silent_since(asked uuid, person uuid, organization uuid, service uuid) returns timestamptz
    language plpgsql stable as $$
declare
    hook record;
    said record;
    since double precision;
begin
    for hook in select counts_as from hooks where counts_as is not null and (org_id = organization or org_id is null) loop
        select * into said from hooks_said(asked, hook.counts_as, organization, service);
        if said.silent_at is not null
           and (said.yes_at is null or said.yes_at <= said.owed_at or to_timestamp(said.yes_at) <= now() - interval '12 hours')
        then
            since := least(since, said.silent_at);
        end if;
    end loop;
    if since is null or hooks_let_in_owner(person, organization) then
        return null;
    end if;
    return to_timestamp(since);
end $$;

-- Redeems an authorization code: for an authenticated service, or for a client that shows a secret.
create or replace function redeem_code_13(
        given_service uuid, given_client text, given_secret text, given_digest bytea, given_redirect_uri text, given_code_challenge text,
        given_proof bytea, given_resource text, given_at timestamptz, given_session uuid, given_refresh_digest bytea, given_lifetime
        interval, given_idle interval, given_minutes_idle integer, given_root text, given_key text, given_login_id uuid,
        given_login_success boolean, given_login_reason text, given_login_address inet, given_login_user_agent text,
        given_login_risk_score real, given_login_risk_factors text[], given_login_flagged boolean, given_login_country text,
        given_login_city text, given_login_spot smallint[], given_login_request uuid, given_login_decision jsonb, given_event uuid,
        given_event_name text, given_event_target text, given_event_details jsonb, given_event_request uuid
    )
    returns table (
        client_service_id uuid, client_service_slug text, client_organization_id uuid, client_organization_slug text,
        client_organization_is_active boolean, client_service_type text, client_id_token_alg text, client_access_token_alg text,
        client_jwks jsonb, client_has_secret boolean, client_secret uuid, client_jwks_uri text, client_jwks_fetched_at timestamptz,
        client_assertion_audience text, client_is_agent boolean, client_binds_tokens boolean, client_holds_fapi2 boolean, user_id uuid,
        service_id uuid, organization_id uuid, redeemed_at timestamptz, redeemed_with bytea, session_id uuid, nonce text, scopes text[],
        auth_time timestamptz, stated_at timestamptz, authenticated_by text[], redeemed boolean, contended boolean, expires_at
        timestamptz, ends_at timestamptz, parent_id uuid, device_id uuid, second_factor_at timestamptz, email text, email_is_verified
        boolean, is_platform_owner boolean, role text, subscription jsonb, profile jsonb, directory_context text, tells_more boolean,
        granted integer, audiences jsonb, untargeted boolean
    )
    language plpgsql volatile security invoker
    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    code record;
    is_its boolean;
    its_organization uuid;
    users record;
    parent sessions;
    bounds sessions;
    oauth_client_id text;
    most_in_service integer;
    most integer;
    admitted boolean;
    acts_until timestamptz;
    due timestamptz;
    has_consent boolean;
    is_spared boolean;
    would_do boolean := false;
    fits boolean;
    apis jsonb;
    silent_until timestamptz;
    exports boolean;
    has_webhooks boolean;
    has_subscription boolean;
    told record;
    rung bigint;
begin
    -- What a server does not have that takes no writes may be there on the one that does.
    if current_setting('transaction_read_only')::boolean then
        raise read_only_sql_transaction using message = 'cannot redeem a code in a read-only transaction';
    end if;
    select * into code from authorization_codes where digest = given_digest;
    if code.redirect_uri = given_redirect_uri
       and code.code_challenge is not distinct from given_code_challenge
       and (code.key_thumbprint is null or code.key_thumbprint = given_key)
       and code.expires_at > given_at
       and code.redeemed_at is null
    then
        is_its := code.service_id = given_service or exists (
            select from client_secrets where digest = decode(given_secret, 'hex') and service_id = code.service_id
        );
    end if;
    if is_its then
        select id, email, email_verified_at, address_vouched_by, is_platform_owner, origin_org_id, name, given_name, family_name, username, zoneinfo, picture_id, language, profile_updated_at
          into users
          from users
         where id = code.user_id and deactivated_at is null
           for no key update;
        if found then
            select *
              into parent
              from sessions
             where id = code.parent_id and user_id = code.user_id
               and revoked_at is null and expires_at > now() and ends_at > now()
               and impersonator_id is null
               and depth = 0
               for share;
        end if;
    end if;
    if parent.id is not null then
        select
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2'
, services.org_id, services.oauth_client_id, services.most_sessions, organizations.most_sessions, memberships.role,
        case services.sign_in_policy
            when 'anyone' then true
            when 'assigned' then holds_service_role(code.user_id, services.org_id, services.id)
            else memberships.role is not null
        end, case
               when services.is_agent
               then agent_acts_until(code.audiences, code.user_id, code.service_id, code.created_at)
               else 'infinity'::timestamptz
           end, case when organizations.asks_terms then terms_due(code.user_id, organizations.id) end,
               coalesce(consents.scopes @> code.scopes, false)
               and (code.audiences is null or audiences_are_allowed(code.audiences, code.user_id, code.service_id)),
               services.trusted and memberships.own_since is not null,
               exists (select from siem_configurations where siem_configurations.org_id = services.org_id),
               exists (select from webhooks where webhooks.org_id = services.org_id),
               exists (select from subscriptions where subscriptions.user_id = code.user_id and subscriptions.service_id = services.id),
               (
               exists (select from service_claims where service_claims.service_id = services.id offset 0)
               or exists (select from service_roles where service_roles.service_id = services.id offset 0)
               or exists (select from team_members where team_members.user_id = code.user_id and team_members.org_id = services.org_id offset 0)
           )
          into client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2, its_organization, oauth_client_id, most_in_service, most, role,
               admitted, acts_until, due,
               has_consent,
               is_spared,
               exports, has_webhooks, has_subscription, tells_more
          from (select given_secret as digest) as asked
         cross join services
          left join organizations on organizations.id = services.org_id
          left join memberships on memberships.org_id = services.org_id and memberships.user_id = code.user_id and (
               users.address_vouched_by is null or memberships.own_since is not null
            or split_part(users.address_vouched_by, '/', 1) = memberships.org_id::text
           )
          left join consents on consents.service_id = services.id and consents.user_id = code.user_id
         where services.id = code.service_id;
        -- Members of the organization need no consent for its trusted services. When the membership ends, the code needs consent again,
        -- also if the code was given a moment before. The use case checks again what a client that shows a secret needs, to tell one
        -- refusal from another. By then the redemption is committed.
        would_do := coalesce(admitted and acts_until > given_at and not coalesce(due <= now(), false)
            and (given_key is not null or not client_binds_tokens)
            and (has_consent or is_spared)
            and client_organization_is_active
            and (given_service is not null
                 or client_secret is not null and client_service_type <> 'proxy' and not client_holds_fapi2
                and oauth_client_id = given_client), false);
        if code.audiences is null then
            fits := given_resource is null;
        else
            apis := case when code.audiences is not null then open_audiences(code.audiences, code.user_id, code.service_id, code.authenticated_by, false) end;
            fits := audience_fits(apis, code.audiences, given_resource, '{}');
        end if;
    end if;
    -- Right before the redemption, so that nothing that a hook says meanwhile is missed. Where no hook counts, it is one look.
    if would_do and fits and exists (select from hooks where counts_as is not null) then
        would_do := hooks_keep_out(parent.id, code.user_id, its_organization, code.service_id, true) is null;
        -- What a silence lets in ends after twelve hours.
        silent_until := hooks_silent_since(parent.id, code.user_id, its_organization, code.service_id) + interval '12 hours';
    end if;
    if would_do and fits then
        update authorization_codes
           set redeemed_at = given_at, redeemed_with = given_proof, session_id = given_session
         where id = code.id and redeemed_at is null;
    end if;
    if (would_do and fits and found) is not true then
        if given_service is null then
            select
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2'
              into client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2
              from (select given_client as client, given_secret as digest) as asked
              join services on services.oauth_client_id = asked.client
              join organizations on organizations.id = services.org_id;
        end if;
        if not found and given_service is null then
            return;
        end if;
        if code.id is not null then
            select org_id into its_organization from all_services where id = code.service_id;
            return query
            select client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           code.user_id,
           code.service_id,
           its_organization,
           code.redeemed_at,
           code.redeemed_with,
           code.session_id,
           code.nonce,
           code.scopes,
           code.auth_time,
           code.stated_at,
           code.authenticated_by,
           false,
           would_do and fits,
           null::timestamptz,
           null::timestamptz,
           null::uuid,
           null::uuid,
           null::timestamptz,
           null::text,
           null::boolean,
           null::boolean,
           null::text,
           null::jsonb,
           null::jsonb,
           null::text,
           false,
           jsonb_array_length(code.audiences),
           apis,
           would_do and not fits;
        elsif given_service is null then
            return next;
        end if;
        return;
    end if;
    -- The new session ends with the browser's session, unless the scopes allow a session of its own. The person has chosen the end of an
    -- agent's.
    if not client_is_agent and given_root <> all (code.scopes) then
        bounds := parent;
    end if;
    expires_at := least(given_at + given_idle, given_at + given_lifetime, bounds.expires_at, bounds.ends_at, acts_until, silent_until);
    ends_at := least(given_at + given_lifetime, bounds.ends_at, acts_until, silent_until);
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, parent_id, depth, proved_at, second_factor_at, stated_at, scopes, audiences,
                          expires_day, minutes_idle, most, most_in_service, key_thumbprint, factor_through, factor_stated)
    values (given_session, code.user_id, parent.device_id, its_organization, code.service_id, given_at, given_at, expires_at, ends_at,
            code.authenticated_by, bounds.id, case when bounds.id is null then 0 else 1 end, code.auth_time,
            parent.second_factor_at, code.stated_at, code.scopes, code.audiences, (expires_at at time zone 'UTC')::date,
            least(given_minutes_idle, bounds.minutes_idle), most, most_in_service,
            given_key, parent.factor_through, parent.factor_stated);
    insert into refresh_tokens (digest, session_id, created_at) values (given_refresh_digest, given_session, given_at);
    -- Where the log has the sign-in already, the redemption adds nothing to it.
    if code.provider <> '' then
    insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, reason, address, user_agent,
                              risk_score, risk_factors, flagged, country, city, spot, created_at, request_id, decision)
    select given_login_id::uuid, code.user_id, its_organization, code.service_id, parent.device_id, code.provider, given_login_success::boolean, given_login_reason::text,
           given_login_address::inet, given_login_user_agent::text, given_login_risk_score::real, given_login_risk_factors::text[],
           given_login_flagged::boolean, given_login_country::text, given_login_city::text,
           given_login_spot::smallint[], given_at::timestamptz,
           given_login_request::uuid, given_login_decision::jsonb
      from (select) as once
    ;
    insert into events (id, name, organization_id, actor_id, target_type, target_id, details, occurred_at, request_id)
    select given_event::uuid, given_event_name::text, its_organization, code.user_id, given_event_target::text, code.user_id::text,
           given_event_details::jsonb || jsonb_build_object('provider', code.provider, 'service_id', code.service_id)
           || jsonb_strip_nulls(jsonb_build_object('agent', case when client_is_agent then oauth_client_id end::text)), given_at::timestamptz,
           given_event_request::uuid
      from (select) as once
 returning id, name, organization_id, target_id, request_id
     into told;
        if exports then
    insert into sign_in_pending (event_id, export_id)
    select given_login_id::uuid, siem_configurations.id
      from (select) as once
      join siem_configurations on siem_configurations.org_id = its_organization
    ;
        end if;
        if has_webhooks then
            with queued as (
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at, request_id)
    select (left(told.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, webhooks.id, told.id, told.name, now(), now(), now(),
           told.request_id
      from (select told.id, told.name, told.organization_id, told.target_id, told.request_id) as told
      join webhooks on webhooks.org_id = told.organization_id
     where webhooks.is_active
       and (told.name = any (webhooks.events) or told.name = 'webhook.tested' and webhooks.id::text = told.target_id)
 returning pg_notify('postern', 'webhooks')
                 )
            select count(*) into rung from queued;
        end if;
    end if;
    if users.origin_org_id <> its_organization then
             insert into held_accounts (user_id, held_since)
             select users.id, given_at
              where users.origin_org_id <> its_organization
                and (
                        'fed' <> all (code.authenticated_by)
                     or exists (select from identities where user_id = users.id and upstream_provider_id is null)
                     or not exists (select from identities where user_id = users.id)
                    )
                 on conflict (user_id) do nothing;
    end if;
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    values (code.service_id, code.user_id, its_organization, given_at, given_at, given_at, case when has_consent then given_at end)
        on conflict (service_id, user_id) do update
       set
                    first_login_at = coalesce(service_users.first_login_at, excluded.first_login_at),
                    last_login_at = greatest(service_users.last_login_at, excluded.last_login_at),
                    own_since = coalesce(service_users.own_since, excluded.own_since)
;
    if has_subscription then
        select (
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
) into subscription from services where services.id = code.service_id;
    end if;
    if 'profile' = any (code.scopes) then
        profile :=
           case
               when num_nonnulls(users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                                 users.language, users.profile_updated_at) > 0
               then jsonb_build_object(
                        'name', users.name, 'given_name', users.given_name, 'family_name', users.family_name, 'username', users.username,
                        'zoneinfo', users.zoneinfo, 'picture', users.picture_id, 'language', users.language,
                        'updated_at', floor(extract(epoch from users.profile_updated_at))::bigint
                    )
           end;
    end if;
    if 'fed' = any (code.authenticated_by) then
        directory_context := case when 'fed' = any (code.authenticated_by) then (
               select directory_sessions.context_class
                 from directory_sessions
                 join upstream_providers on upstream_providers.id = directory_sessions.upstream_provider_id
                where directory_sessions.session_id = parent.id and upstream_providers.org_id = its_organization
           ) end;
    end if;
    return query
    select client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           code.user_id,
           code.service_id,
           its_organization,
           code.redeemed_at,
           code.redeemed_with,
           code.session_id,
           code.nonce,
           code.scopes,
           code.auth_time,
           code.stated_at,
           code.authenticated_by,
           true,
           false,
           expires_at,
           ends_at,
           bounds.id,
           parent.device_id,
           parent.second_factor_at,
           users.email,
           (users.email_verified_at is not null or coalesce(split_part(users.address_vouched_by, '/', 1) = its_organization::text, false)),
           users.is_platform_owner,
           role,
           subscription,
           profile,
           directory_context,
           tells_more,
           jsonb_array_length(code.audiences),
           apis,
           false;
end $$;

-- Written by `python -m ops.written.functions`: from here on, change the parts in Python that a function is made of.

-- Redeems an authorization code: for an authenticated service, or for a client that shows a secret.
create or replace function redeem_code_16(
        given_service uuid, given_client text, given_secret text, given_digest bytea, given_redirect_uri text, given_code_challenge text,
        given_proof bytea, given_resource text, given_at timestamptz, given_session uuid, given_refresh_digest bytea, given_lifetime
        interval, given_idle interval, given_minutes_idle integer, given_root text, given_key text, given_login_id uuid,
        given_login_success boolean, given_login_reason text, given_login_address inet, given_login_user_agent text,
        given_login_risk_score real, given_login_risk_factors text[], given_login_flagged boolean, given_login_country text,
        given_login_city text, given_login_spot smallint[], given_login_request uuid, given_login_decision jsonb, given_event uuid,
        given_event_name text, given_event_target text, given_event_details jsonb, given_event_request uuid
    )
    returns table (
        client_service_id uuid, client_service_slug text, client_organization_id uuid, client_organization_slug text,
        client_organization_is_active boolean, client_service_type text, client_id_token_alg text, client_access_token_alg text,
        client_jwks jsonb, client_has_secret boolean, client_secret uuid, client_jwks_uri text, client_jwks_fetched_at timestamptz,
        client_assertion_audience text, client_is_agent boolean, client_binds_tokens boolean, client_holds_fapi2 boolean,
        client_session_hours integer, user_id uuid, service_id uuid, organization_id uuid, redeemed_at timestamptz, redeemed_with bytea,
        session_id uuid, nonce text, scopes text[], auth_time timestamptz, stated_at timestamptz, authenticated_by text[], redeemed
        boolean, contended boolean, expires_at timestamptz, ends_at timestamptz, parent_id uuid, device_id uuid, second_factor_at
        timestamptz, email text, email_is_verified boolean, is_platform_owner boolean, role text, subscription jsonb, profile jsonb,
        directory_context text, tells_more boolean, granted integer, audiences jsonb, untargeted boolean
    )
    language plpgsql volatile security invoker
    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    code record;
    is_its boolean;
    its_organization uuid;
    users record;
    parent sessions;
    bounds sessions;
    oauth_client_id text;
    most_in_service integer;
    most integer;
    admitted boolean;
    acts_until timestamptz;
    due timestamptz;
    has_consent boolean;
    is_spared boolean;
    would_do boolean := false;
    fits boolean;
    apis jsonb;
    silent_until timestamptz;
    exports boolean;
    has_webhooks boolean;
    has_subscription boolean;
    told record;
    rung bigint;
begin
    -- What a server does not have that takes no writes may be there on the one that does.
    if current_setting('transaction_read_only')::boolean then
        raise read_only_sql_transaction using message = 'cannot redeem a code in a read-only transaction';
    end if;
    select * into code from authorization_codes where digest = given_digest;
    if code.redirect_uri = given_redirect_uri
       and code.code_challenge is not distinct from given_code_challenge
       and (code.key_thumbprint is null or code.key_thumbprint = given_key)
       and code.expires_at > given_at
       and code.redeemed_at is null
    then
        is_its := code.service_id = given_service or exists (
            select from client_secrets where digest = decode(given_secret, 'hex') and service_id = code.service_id
        );
    end if;
    if is_its then
        select id, email, email_verified_at, address_vouched_by, is_platform_owner, origin_org_id, name, given_name, family_name, username, zoneinfo, picture_id, language, profile_updated_at
          into users
          from users
         where id = code.user_id and deactivated_at is null
           for no key update;
        if found then
            select *
              into parent
              from sessions
             where id = code.parent_id and user_id = code.user_id
               and revoked_at is null and expires_at > now() and ends_at > now()
               and impersonator_id is null
               and depth = 0
               for share;
        end if;
    end if;
    if parent.id is not null then
        select
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2',
           least(organizations.session_hours, services.session_lifetime_hours)
, services.org_id, services.oauth_client_id, services.most_sessions, organizations.most_sessions, memberships.role,
        case services.sign_in_policy
            when 'anyone' then true
            when 'assigned' then holds_service_role(code.user_id, services.org_id, services.id)
            else memberships.role is not null
        end, case
               when services.is_agent
               then agent_acts_until(code.audiences, code.user_id, code.service_id, code.created_at)
               else 'infinity'::timestamptz
           end, case when organizations.asks_terms then terms_due(code.user_id, organizations.id) end,
               coalesce(consents.scopes @> code.scopes, false)
               and (code.audiences is null or audiences_are_allowed(code.audiences, code.user_id, code.service_id)),
               services.trusted and memberships.own_since is not null,
               exists (select from siem_configurations where siem_configurations.org_id = services.org_id),
               exists (select from webhooks where webhooks.org_id = services.org_id),
               exists (select from subscriptions where subscriptions.user_id = code.user_id and subscriptions.service_id = services.id),
               (
               exists (select from service_claims where service_claims.service_id = services.id offset 0)
               or exists (select from service_roles where service_roles.service_id = services.id offset 0)
               or exists (select from team_members where team_members.user_id = code.user_id and team_members.org_id = services.org_id offset 0)
           )
          into client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           client_session_hours, its_organization, oauth_client_id, most_in_service, most, role,
               admitted, acts_until, due,
               has_consent,
               is_spared,
               exports, has_webhooks, has_subscription, tells_more
          from (select given_secret as digest) as asked
         cross join services
          left join organizations on organizations.id = services.org_id
          left join memberships on memberships.org_id = services.org_id and memberships.user_id = code.user_id and (
               users.address_vouched_by is null or memberships.own_since is not null
            or split_part(users.address_vouched_by, '/', 1) = memberships.org_id::text
           )
          left join consents on consents.service_id = services.id and consents.user_id = code.user_id
         where services.id = code.service_id;
        -- Members of the organization need no consent for its trusted services. When the membership ends, the code needs consent again,
        -- also if the code was given a moment before. The use case checks again what a client that shows a secret needs, to tell one
        -- refusal from another. By then the redemption is committed.
        would_do := coalesce(admitted and acts_until > given_at and not coalesce(due <= now(), false)
            and (given_key is not null or not client_binds_tokens)
            and (has_consent or is_spared)
            and client_organization_is_active
            and (given_service is not null
                 or client_secret is not null and client_service_type <> 'proxy' and not client_holds_fapi2
                and oauth_client_id = given_client), false);
        if code.audiences is null then
            fits := given_resource is null;
        else
            apis := case when code.audiences is not null then open_audiences(code.audiences, code.user_id, code.service_id, code.authenticated_by, false) end;
            fits := audience_fits(apis, code.audiences, given_resource, '{}');
        end if;
    end if;
    -- Right before the redemption, so that nothing that a hook says meanwhile is missed. Where no hook counts, it is one look.
    if would_do and fits and exists (select from hooks where counts_as is not null) then
        would_do := hooks_keep_out(parent.id, code.user_id, its_organization, code.service_id, true) is null;
        -- What a silence lets in ends after twelve hours.
        silent_until := hooks_silent_since(parent.id, code.user_id, its_organization, code.service_id) + interval '12 hours';
    end if;
    if would_do and fits then
        update authorization_codes
           set redeemed_at = given_at, redeemed_with = given_proof, session_id = given_session
         where id = code.id and redeemed_at is null;
    end if;
    if (would_do and fits and found) is not true then
        if given_service is null then
            select
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2',
           least(organizations.session_hours, services.session_lifetime_hours)
              into client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           client_session_hours
              from (select given_client as client, given_secret as digest) as asked
              join services on services.oauth_client_id = asked.client
              join organizations on organizations.id = services.org_id;
        end if;
        if not found and given_service is null then
            return;
        end if;
        if code.id is not null then
            select org_id into its_organization from all_services where id = code.service_id;
            return query
            select client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           client_session_hours,
           code.user_id,
           code.service_id,
           its_organization,
           code.redeemed_at,
           code.redeemed_with,
           code.session_id,
           code.nonce,
           code.scopes,
           code.auth_time,
           code.stated_at,
           code.authenticated_by,
           false,
           would_do and fits,
           null::timestamptz,
           null::timestamptz,
           null::uuid,
           null::uuid,
           null::timestamptz,
           null::text,
           null::boolean,
           null::boolean,
           null::text,
           null::jsonb,
           null::jsonb,
           null::text,
           false,
           jsonb_array_length(code.audiences),
           apis,
           would_do and not fits;
        elsif given_service is null then
            return next;
        end if;
        return;
    end if;
    -- The new session ends with the browser's session, unless the scopes allow a session of its own. The person has chosen the end of an
    -- agent's.
    if not client_is_agent and given_root <> all (code.scopes) then
        bounds := parent;
    end if;
    expires_at := least(given_at + given_idle, given_at + given_lifetime, bounds.expires_at, bounds.ends_at, acts_until, silent_until);
    ends_at := least(given_at + given_lifetime, bounds.ends_at, acts_until, silent_until);
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, parent_id, depth, proved_at, second_factor_at, stated_at, scopes, audiences,
                          expires_day, minutes_idle, most, most_in_service, key_thumbprint, factor_through, factor_stated)
    values (given_session, code.user_id, parent.device_id, its_organization, code.service_id, given_at, given_at, expires_at, ends_at,
            code.authenticated_by, bounds.id, case when bounds.id is null then 0 else 1 end, code.auth_time,
            parent.second_factor_at, code.stated_at, code.scopes, code.audiences, (expires_at at time zone 'UTC')::date,
            least(given_minutes_idle, bounds.minutes_idle), most, most_in_service,
            given_key, parent.factor_through, parent.factor_stated);
    insert into refresh_tokens (digest, session_id, created_at) values (given_refresh_digest, given_session, given_at);
    -- Where the log has the sign-in already, the redemption adds nothing to it.
    if code.provider <> '' then
    insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, reason, address, user_agent,
                              risk_score, risk_factors, flagged, country, city, spot, created_at, request_id, decision)
    select given_login_id::uuid, code.user_id, its_organization, code.service_id, parent.device_id, code.provider, given_login_success::boolean, given_login_reason::text,
           given_login_address::inet, given_login_user_agent::text, given_login_risk_score::real, given_login_risk_factors::text[],
           given_login_flagged::boolean, given_login_country::text, given_login_city::text,
           given_login_spot::smallint[], given_at::timestamptz,
           given_login_request::uuid, given_login_decision::jsonb
      from (select) as once
    ;
    insert into events (id, name, organization_id, actor_id, target_type, target_id, details, occurred_at, request_id)
    select given_event::uuid, given_event_name::text, its_organization, code.user_id, given_event_target::text, code.user_id::text,
           given_event_details::jsonb || jsonb_build_object('provider', code.provider, 'service_id', code.service_id)
           || jsonb_strip_nulls(jsonb_build_object('agent', case when client_is_agent then oauth_client_id end::text)), given_at::timestamptz,
           given_event_request::uuid
      from (select) as once
 returning id, name, organization_id, target_id, request_id
     into told;
        if exports then
    insert into sign_in_pending (event_id, export_id)
    select given_login_id::uuid, siem_configurations.id
      from (select) as once
      join siem_configurations on siem_configurations.org_id = its_organization
    ;
        end if;
        if has_webhooks then
            with queued as (
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at, request_id)
    select (left(told.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, webhooks.id, told.id, told.name, now(), now(), now(),
           told.request_id
      from (select told.id, told.name, told.organization_id, told.target_id, told.request_id) as told
      join webhooks on webhooks.org_id = told.organization_id
     where webhooks.is_active
       and (told.name = any (webhooks.events) or told.name = 'webhook.tested' and webhooks.id::text = told.target_id)
 returning pg_notify('postern', 'webhooks')
                 )
            select count(*) into rung from queued;
        end if;
    end if;
    if users.origin_org_id <> its_organization then
             insert into held_accounts (user_id, held_since)
             select users.id, given_at
              where users.origin_org_id <> its_organization
                and (
                        'fed' <> all (code.authenticated_by)
                     or exists (select from identities where user_id = users.id and upstream_provider_id is null)
                     or not exists (select from identities where user_id = users.id)
                    )
                 on conflict (user_id) do nothing;
    end if;
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    values (code.service_id, code.user_id, its_organization, given_at, given_at, given_at, case when has_consent then given_at end)
        on conflict (service_id, user_id) do update
       set
                    first_login_at = coalesce(service_users.first_login_at, excluded.first_login_at),
                    last_login_at = greatest(service_users.last_login_at, excluded.last_login_at),
                    own_since = coalesce(service_users.own_since, excluded.own_since)
;
    if has_subscription then
        select (
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
) into subscription from services where services.id = code.service_id;
    end if;
    if 'profile' = any (code.scopes) then
        profile :=
           case
               when num_nonnulls(users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                                 users.language, users.profile_updated_at) > 0
               then jsonb_build_object(
                        'name', users.name, 'given_name', users.given_name, 'family_name', users.family_name, 'username', users.username,
                        'zoneinfo', users.zoneinfo, 'picture', users.picture_id, 'language', users.language,
                        'updated_at', floor(extract(epoch from users.profile_updated_at))::bigint
                    )
           end;
    end if;
    if 'fed' = any (code.authenticated_by) then
        directory_context := case when 'fed' = any (code.authenticated_by) then (
               select directory_sessions.context_class
                 from directory_sessions
                 join upstream_providers on upstream_providers.id = directory_sessions.upstream_provider_id
                where directory_sessions.session_id = parent.id and upstream_providers.org_id = its_organization
           ) end;
    end if;
    return query
    select client_service_id,
           client_service_slug,
           client_organization_id,
           client_organization_slug,
           client_organization_is_active,
           client_service_type,
           client_id_token_alg,
           client_access_token_alg,
           client_jwks,
           client_has_secret,
           client_secret,
           client_jwks_uri,
           client_jwks_fetched_at,
           client_assertion_audience,
           client_is_agent,
           client_binds_tokens,
           client_holds_fapi2,
           client_session_hours,
           code.user_id,
           code.service_id,
           its_organization,
           code.redeemed_at,
           code.redeemed_with,
           code.session_id,
           code.nonce,
           code.scopes,
           code.auth_time,
           code.stated_at,
           code.authenticated_by,
           true,
           false,
           expires_at,
           ends_at,
           bounds.id,
           parent.device_id,
           parent.second_factor_at,
           users.email,
           (users.email_verified_at is not null or coalesce(split_part(users.address_vouched_by, '/', 1) = its_organization::text, false)),
           users.is_platform_owner,
           role,
           subscription,
           profile,
           directory_context,
           tells_more,
           jsonb_array_length(code.audiences),
           apis,
           false;
end $$;

-- Exchanges a refresh token for its successor, and says what it is worth.
create or replace function rotate_refresh_token_11(
        given_digest bytea, given_successor bytea, given_by bytea, given_at timestamptz, given_idle interval, given_service uuid,
        given_scopes text[], given_is_public boolean, given_resource text, given_key text, given_foreign_scopes text[]
    )
    returns table (
        session_id uuid, user_id uuid, device_id uuid, organization_id uuid, organization_slug text, service_id uuid, service_slug text,
        created_at timestamptz, last_seen_at timestamptz, expires_at timestamptz, ends_at timestamptz, authenticated_by text[],
        impersonator_id uuid, impersonation_id uuid, email text, is_platform_owner boolean, is_live boolean, is_admitted boolean,
        organization_is_active boolean, rotated_at timestamptz, rotated_by bytea, scopes text[], proved_at timestamptz, second_factor_at
        timestamptz, stated_at timestamptz, parent_id uuid, email_is_verified boolean, role text, owes_second_factor boolean, owes_terms
        boolean, client_id text, access_token_alg text, profile jsonb, audiences jsonb, granted integer, is_agent boolean,
        agents_are_forbidden boolean, stays boolean, subscription jsonb, directory_context text, tells_more boolean, rotated boolean,
        is_kept_out boolean
    )
    language plpgsql volatile security invoker
    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    token record;
    is_current boolean;
    held record;
    line uuid[] := '{}';
    one uuid;
    kept jsonb;
    owns boolean;
begin
    select session_id, rotated_at, rotated_by
      into token
      from refresh_tokens
     where digest = given_digest and rotated_at is null
       for no key update;
    is_current := found;
    if not is_current then
        select session_id, rotated_at, rotated_by into token from refresh_tokens where digest = given_digest;
        if not found then
            return;
        end if;
    end if;
    if is_current then
        select id, parent_id, depth
          into held
          from sessions
         where id = token.session_id and revoked_at is null and expires_at > now() and ends_at > now()
           and (organization_id is null or exists (select from organizations where organizations.id = sessions.organization_id))
           and (service_id is null or exists (select from services where services.id = sessions.service_id))
           and (given_service is null or sessions.scopes is not null and sessions.service_id = given_service)
           and (sessions.key_thumbprint is null or given_key is not null and (not given_is_public or sessions.key_thumbprint = given_key));
        is_current := found;
    end if;
    if is_current then
        case held.depth
            when 0 then
                line := array[held.id];
            when 1 then
                line := array[least(held.id, held.parent_id), greatest(held.id, held.parent_id)];
            else
                line := array(
                    with recursive above as (
                        select held.id, held.parent_id
                         union all
                        select sessions.id, sessions.parent_id from above join sessions on sessions.id = above.parent_id
                    )
                    select above.id from above order by above.id
                );
        end case;
        foreach one in array line loop
            perform from sessions where id = one and revoked_at is null for no key update;
        end loop;
    end if;
    select sessions.id,
           sessions.user_id,
           sessions.device_id,
           sessions.organization_id,
           organizations.slug,
           sessions.service_id,
           services.slug,
           sessions.created_at,
           sessions.last_seen_at,
           sessions.expires_at,
           sessions.ends_at,
           sessions.authenticated_by,
           sessions.impersonator_id,
           sessions.impersonation_id,
           users.email,
           users.is_platform_owner,
           sessions.revoked_at is null
       and sessions.expires_at > now()
       and sessions.ends_at > now()
       and (organizations.session_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' > now())
       and (services.session_lifetime_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + services.session_lifetime_hours * interval '1 hour' > now())
       and (organizations.session_idle_minutes is null
         or sessions.last_seen_at + organizations.session_idle_minutes * interval '1 minute' > now())
       and (services.session_idle_minutes is null
         or sessions.last_seen_at + services.session_idle_minutes * interval '1 minute' > now())
       and users.deactivated_at is null
       and (sessions.organization_id is null or organizations.id is not null)      -- neither organization nor service is being deleted
       and (sessions.service_id is null or services.id is not null)
       and (sessions.impersonator_id is null or not users.is_platform_owner and exists (
               select from users as impersonators
                where impersonators.id = sessions.impersonator_id
                  and impersonators.is_platform_owner
                  and impersonators.deactivated_at is null
           )) and case
               when services.is_agent then coalesce(case
               when services.is_agent
               then agent_acts_until(sessions.audiences, sessions.user_id, sessions.service_id, sessions.created_at)
               else 'infinity'::timestamptz
           end > now(), false)
               else coalesce(sessions.created_at >= services.agent_since, true)
           end,
        case services.sign_in_policy
            when 'anyone' then true
            when 'assigned' then holds_service_role(sessions.user_id, services.org_id, services.id)
            else memberships.role is not null
        end,
           coalesce(organizations.status = 'active', false),
           token.rotated_at,
           token.rotated_by,
           sessions.scopes,
           sessions.proved_at,
           sessions.second_factor_at,
           sessions.stated_at,
           sessions.parent_id,
           (users.email_verified_at is not null or coalesce(split_part(users.address_vouched_by, '/', 1) = sessions.organization_id::text, false)),
           memberships.role,
           num_nonnulls(organizations.mfa_required_since, organizations.admin_factor, organizations.all_factor) > 0,
           coalesce(case when organizations.asks_terms and sessions.impersonator_id is null then terms_due(sessions.user_id, organizations.id) end <= now(), false),
           case when sessions.scopes is not null then services.oauth_client_id end,
           services.access_token_alg,
           case when 'profile' = any (sessions.scopes) then
           case
               when num_nonnulls(users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                                 users.language, users.profile_updated_at) > 0
               then jsonb_build_object(
                        'name', users.name, 'given_name', users.given_name, 'family_name', users.family_name, 'username', users.username,
                        'zoneinfo', users.zoneinfo, 'picture', users.picture_id, 'language', users.language,
                        'updated_at', floor(extract(epoch from users.profile_updated_at))::bigint
                    )
           end end,
           case when sessions.audiences is not null then open_audiences(sessions.audiences, sessions.user_id, sessions.service_id, sessions.authenticated_by, false) end,
           jsonb_array_length(sessions.audiences),
           services.is_agent,
           coalesce(services.is_agent and organizations.agents = 'forbidden', false),
           coalesce(sessions.scopes is not null and services.profile = 'fapi2', false),
           sessions.audiences
      into session_id,
           user_id,
           device_id,
           organization_id,
           organization_slug,
           service_id,
           service_slug,
           created_at,
           last_seen_at,
           expires_at,
           ends_at,
           authenticated_by,
           impersonator_id,
           impersonation_id,
           email,
           is_platform_owner,
           is_live,
           is_admitted,
           organization_is_active,
           rotated_at,
           rotated_by,
           scopes,
           proved_at,
           second_factor_at,
           stated_at,
           parent_id,
           email_is_verified,
           role,
           owes_second_factor,
           owes_terms,
           client_id,
           access_token_alg,
           profile,
           audiences,
           granted,
           is_agent,
           agents_are_forbidden,
           stays,
           kept
      from sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and (
               users.address_vouched_by is null or memberships.own_since is not null
            or split_part(users.address_vouched_by, '/', 1) = memberships.org_id::text
           )
     where sessions.id = token.session_id
       and (given_service is null or sessions.scopes is not null and sessions.service_id = given_service)
       and (sessions.key_thumbprint is null or given_key is not null and (not given_is_public or sessions.key_thumbprint = given_key))
       and (sessions.scopes is null or not given_is_public or coalesce(sessions.created_at > services.credential_removed_at + interval '1 minute', true))
       and (given_key is not null or not coalesce(services.dpop_bound_access_tokens, false));
    if not found then
        return;
    end if;
    if given_service is null and scopes is not null then
        perform from services where services.id = rotate_refresh_token_11.service_id and (
           services.service_type in ('mobile', 'desktop') or services.jwks_uri is null and not (services.jwks is not null or exists (select from client_secrets where client_secrets.service_id = services.id)));
        if not found then
            return;
        end if;
    end if;
    if owes_second_factor then
        select coalesce(
           least(
               case
                   when organizations.mfa_required_since is not null and memberships.user_id is not null
                    and least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = coalesce(sessions.impersonator_id, sessions.user_id) limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = coalesce(sessions.impersonator_id, sessions.user_id))
           ) is null and not (
               sessions.factor_through is not null
           and directory_factor_counts(sessions.factor_through, sessions.factor_stated, organizations.id)
           )
                   then greatest(organizations.mfa_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end,
               case
                   when organizations.admin_factor is not null and memberships.user_id is not null and (
               memberships.role in ('owner', 'admin')
            or exists (
                   select
                     from team_members
                     join teams on teams.id = team_members.team_id
                    where team_members.user_id = memberships.user_id and team_members.org_id = memberships.org_id and teams.role = 'admin'
               )
           )
                    and case organizations.admin_factor
                            when 'passkey' then least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = coalesce(sessions.impersonator_id, sessions.user_id) limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = coalesce(sessions.impersonator_id, sessions.user_id))
           ) is null or not exists (select from passkeys where passkeys.user_id = coalesce(sessions.impersonator_id, sessions.user_id))
                            else least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = coalesce(sessions.impersonator_id, sessions.user_id) limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = coalesce(sessions.impersonator_id, sessions.user_id))
           ) is null and not (
               sessions.factor_through is not null
           and directory_factor_counts(sessions.factor_through, sessions.factor_stated, organizations.id)
           )
                        end
                   then greatest(organizations.admin_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end,
               case
                   when organizations.all_factor is not null and memberships.user_id is not null
                    and owes_passkey(organizations.all_factor, organizations.all_factor_role_id, organizations.id, memberships.user_id,
                                     coalesce(sessions.impersonator_id, sessions.user_id))
                   then greatest(organizations.all_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end
           ) <= now(), false) into owes_second_factor from sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and (
               users.address_vouched_by is null or memberships.own_since is not null
            or split_part(users.address_vouched_by, '/', 1) = memberships.org_id::text
           ) where sessions.id = rotate_refresh_token_11.session_id;
    end if;
    is_kept_out := false;
    if organization_id is not null and impersonator_id is null and exists (select from hooks where counts_as is not null) then
        -- A no alone, however old the yes is: nobody is asked here.
        is_kept_out := hooks_keep_out(session_id, user_id, organization_id, service_id, false) is not null;
    end if;
    rotated := is_current and is_live and not is_kept_out
        and given_scopes <@ coalesce(scopes, '{}')
        and case
                when kept is null then given_resource is null and (given_foreign_scopes = '{}' or given_scopes <> '{}')
                else audience_fits(audiences, kept, given_resource, given_foreign_scopes)
            end
        and (organization_id is null or is_admitted and organization_is_active and not owes_second_factor and not owes_terms);
    if rotated then
        update refresh_tokens
           set rotated_at = case when stays then null else given_at end, rotated_by = case when stays then null else given_by end
         where digest = given_digest;
        if not stays then
            insert into refresh_tokens (digest, session_id, created_at) values (given_successor, held.id, given_at);
        end if;
        foreach one in array line loop
            update sessions
               set expires_at = least(given_at + coalesce(sessions.minutes_idle * interval '1 minute', given_idle), sessions.ends_at),
                   expires_day = (least(given_at + coalesce(sessions.minutes_idle * interval '1 minute', given_idle), sessions.ends_at) at time zone 'UTC')::date,
                   last_seen_at = greatest(sessions.last_seen_at, given_at)
             where id = one and revoked_at is null;
        end loop;
    end if;
    if 'fed' = any (authenticated_by) then
        directory_context := case when 'fed' = any (authenticated_by) then (
               select directory_sessions.context_class
                 from directory_sessions
                 join upstream_providers on upstream_providers.id = directory_sessions.upstream_provider_id
                where directory_sessions.session_id = rotate_refresh_token_11.parent_id and upstream_providers.org_id = rotate_refresh_token_11.organization_id
           ) end;
    end if;
    tells_more := false;
    if organization_id is not null then
        select (
               exists (select from service_claims where service_claims.service_id = rotate_refresh_token_11.service_id offset 0)
               or exists (select from service_roles where service_roles.service_id = rotate_refresh_token_11.service_id offset 0)
               or exists (select from team_members where team_members.user_id = rotate_refresh_token_11.user_id and team_members.org_id = rotate_refresh_token_11.organization_id offset 0)
           ),
               exists (select from subscriptions where subscriptions.user_id = rotate_refresh_token_11.user_id and subscriptions.service_id = rotate_refresh_token_11.service_id)
          into tells_more, owns;
        if owns and service_slug is not null then  -- a service that is being deleted has none
            select (
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
) into subscription from (select rotate_refresh_token_11.user_id as id) as users, (select rotate_refresh_token_11.service_id as id) as services;
        end if;
    end if;
    return next;
end $$;

-- Takes a guess, and then finds all that a sign-in needs before the password is checked.
create or replace function find_attempt_15(
        given_email_key text, given_mail_domain text, given_account_key text, given_account_limit text, given_account_burst double
        precision, given_account_pace double precision, given_device_digest bytea, given_trust_digest bytea, given_device_limit text,
        given_device_burst double precision, given_device_pace double precision, given_device_type text, given_device_browser text,
        given_device_os text, given_device_history integer, given_guess_kinds text[], given_guess_slots integer[], given_guess_keys
        text[], given_guess_failures integer[], given_guess_spreads integer[], given_guess_hour timestamptz, given_organization_slug text,
        given_service_slug text, given_application_organization uuid, given_application_service uuid
    )
    returns table (
        limit_name text, key text, wait double precision, id uuid, email text, is_platform_owner boolean, email_verified_at timestamptz,
        deactivated_at timestamptz, created_at timestamptz, language text, address_vouched_by text, password_hash text, mfa_enabled
        boolean, knowledge jsonb, breached_at_sign_in text, pressure double precision, realm_organization_id uuid, realm_organization_slug
        text, realm_policy text, realm_shared_provider text, realm_own_provider uuid, realm_joins boolean, service_id uuid, service_slug
        text, organization_id uuid, organization_slug text, organization_is_active boolean, is_agent boolean, binds_tokens boolean,
        may_know_of_failures boolean
    )
    language plpgsql volatile security invoker
    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    known uuid;
    users record;
    realms record;
begin
    if given_device_digest is not null then
        select devices.id
          into known
          from devices
          join users on users.id = devices.user_id
         where devices.token_digest = given_device_digest and devices.revoked_at is null and users.email_key = given_email_key;
    end if;
    with wanted as (
             select case when known is null then given_account_limit else given_device_limit end as limit_name,
                    coalesce(known::text, given_account_key) as key,
                    case when known is null then given_account_burst else given_device_burst end as burst,
                    case when known is null then given_account_pace else given_device_pace end as pace
         )
    insert into rate_limit_buckets as bucket (limit_name, key, tokens, at, wait, full_at)
    select wanted.limit_name, wanted.key, wanted.burst - 1, clock.at, 0, clock.at + wanted.pace * interval '1 second'
      from wanted
     cross join (select clock_timestamp() as at) as clock
     order by wanted.limit_name, wanted.key
        on conflict (limit_name, key) do update
       set (tokens, at, wait, full_at) = (
               select after.tokens, after.at, after.wait, after.at + (measure.burst - after.tokens) * measure.pace * interval '1 second'
                 from (
                          select excluded.tokens + 1 as burst,
                                 extract(epoch from excluded.full_at - excluded.at)::double precision as pace,
                                 greatest(bucket.at, clock_timestamp()) as at
                      ) as measure
                cross join lateral (
                          select measure.at,
                                 least(
                                     measure.burst,
                                     bucket.tokens + extract(epoch from measure.at - bucket.at)::double precision / measure.pace
                                 ) as tokens
                      ) as before
                cross join lateral (
                          select before.at,
                                 before.tokens - case when before.tokens >= 1 then 1 else 0 end as tokens,
                                 case when before.tokens >= 1 then 0 else (1 - before.tokens) * measure.pace end as wait
                      ) as after
           )
 returning limit_name, key, wait
      into limit_name, key, wait;
    select users.id, users.email, users.is_platform_owner, users.email_verified_at, users.deactivated_at, users.created_at, users.language, users.address_vouched_by, users.email_key, users.password_hash
      into users
      from users
     where users.email_key = given_email_key;
    id := users.id;
    email := users.email;
    is_platform_owner := users.is_platform_owner;
    email_verified_at := users.email_verified_at;
    deactivated_at := users.deactivated_at;
    created_at := users.created_at;
    language := users.language;
    address_vouched_by := users.address_vouched_by;
    password_hash := users.password_hash;
    users.id := coalesce(id, '00000000-0000-0000-0000-000000000000');
    if given_device_digest is null then
        select (
               exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null)
            or exists (select from passkeys where passkeys.user_id = users.id and passkeys.second_factor_since is not null)
           ), (
               select min(organizations.breached_at_sign_in)
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id and memberships.own_since is not null and organizations.status = 'active'
           ), (
    select jsonb_build_object(
               'by_agent', (
                   select jsonb_build_object('id', devices.id, 'trusted_until', extract(epoch from devices.trusted_until))
                     from devices
                    where devices.user_id = users.id
                      and devices.revoked_at is null
                      and devices.device_type = given_device_type
                      and devices.browser is not distinct from given_device_browser
                      and devices.os is not distinct from given_device_os
                    order by devices.last_used_at desc
                    limit 1
               ),
               'good', array(
                   select jsonb_build_array(extract(hour from login_events.created_at at time zone 'UTC'), login_events.country)
                     from login_events
                    where login_events.user_id = users.id and login_events.success and not login_events.flagged
                    order by login_events.id desc
                    limit given_device_history
               ),
               'latest', array(
                   select case when not login_events.success then coalesce(login_events.reason, '') end
                     from login_events
                    where login_events.user_id = users.id
                    order by login_events.id desc
                    limit 20
               )
           )
)
          into mfa_enabled, breached_at_sign_in, knowledge;
    else
        select (
               exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null)
            or exists (select from passkeys where passkeys.user_id = users.id and passkeys.second_factor_since is not null)
           ), (
               select min(organizations.breached_at_sign_in)
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id and memberships.own_since is not null and organizations.status = 'active'
           ), (
    select jsonb_build_object(
               'by_token', (
                   select jsonb_build_object(
                              'id', devices.id,
                              'trusted_until', extract(epoch from
                   case
                       when devices.trusted_until is not null
                       then least(
                                devices.trusted_until,
                                coalesce(devices.trusted_at, devices.trusted_until - interval '30 days')
                                + (
                   select min(organizations.device_trust_days)
                     from memberships
                     join organizations on organizations.id = memberships.org_id
                    where memberships.user_id = devices.user_id and memberships.own_since is not null and organizations.status = 'active'
) * interval '1 day'
                            )
                   end),
                              'brings_trust', coalesce(devices.trust_digest = given_trust_digest, false)
                          )
                     from devices
                    where devices.token_digest = given_device_digest and devices.user_id = users.id and devices.revoked_at is null
               ),
               'by_agent', (
                   select jsonb_build_object('id', devices.id, 'trusted_until', extract(epoch from devices.trusted_until))
                     from devices
                    where devices.user_id = users.id
                      and devices.revoked_at is null
                      and devices.device_type = given_device_type
                      and devices.browser is not distinct from given_device_browser
                      and devices.os is not distinct from given_device_os
                    order by devices.last_used_at desc
                    limit 1
               ),
               'good', array(
                   select jsonb_build_array(extract(hour from login_events.created_at at time zone 'UTC'), login_events.country)
                     from login_events
                    where login_events.user_id = users.id and login_events.success and not login_events.flagged
                    order by login_events.id desc
                    limit given_device_history
               ),
               'latest', array(
                   select case when not login_events.success then coalesce(login_events.reason, '') end
                     from login_events
                    where login_events.user_id = users.id
                    order by login_events.id desc
                    limit 20
               )
           )
)
          into mfa_enabled, breached_at_sign_in, knowledge;
    end if;
    pressure := 0;
    if cardinality(given_guess_kinds) > 0 then
        pressure := coalesce((
        select max(there.failures::float8 / place.failures)
          from unnest(given_guess_kinds::text[], given_guess_slots::int[], given_guess_keys::text[], given_guess_failures::int[],
                      given_guess_spreads::int[]) as place (kind, slot, key, failures, spread)
         cross join lateral (
                  select counts.failures, counts.seen
                    from guess_counts as counts
                   where counts.kind = place.kind and counts.slot = place.slot and counts.key = place.key
                     and counts.hour = given_guess_hour::timestamptz
                  offset 0
              ) as there
         where there.failures >= place.failures and bit_count(there.seen::bit(64)) >= place.spread
    ), 0);
    end if;
    select realms.*, homes.id as realm_organization_id, homes.slug as realm_organization_slug, realms.login_policy as realm_policy,
           realms.shared_provider as realm_shared_provider, realms.own_provider as realm_own_provider
      into realms
      from domain_routes as realms
      join organizations as homes on homes.id = realms.org_id and homes.status = 'active'
     where realms.domain = given_mail_domain and realms.verified_at is not null;
    if found then
        realm_organization_id := realms.realm_organization_id;
        realm_organization_slug := realms.realm_organization_slug;
        realm_policy := realms.realm_policy;
        realm_shared_provider := realms.realm_shared_provider;
        realm_own_provider := realms.realm_own_provider;
        realm_joins := realms.join_policy <> 'off' and (users.email_verified_at is not null or coalesce(split_part(users.address_vouched_by, '/', 1) = realms.org_id::text, false)) and not users.is_platform_owner
       and not exists (select from memberships where memberships.org_id = realms.org_id and memberships.user_id = users.id)
       and not (
               exists (select from former_members where former_members.org_id = realms.org_id and former_members.user_id = users.id)
            or exists (
                   select
                     from provisioned_users
                    where provisioned_users.org_id = realms.org_id and provisioned_users.user_id = users.id
                      and not provisioned_users.is_member
               )
            or exists (
                   select
                     from former_addresses as had
                    where had.email_key = users.email_key
                      and (
                              exists (
                                  select
                                    from former_members
                                   where former_members.org_id = realms.org_id and former_members.user_id = had.user_id
                              )
                           or exists (
                                  select
                                    from join_requests as theirs
                                   where theirs.org_id = realms.org_id and theirs.user_id = had.user_id and theirs.status = 'declined'
                              )
                          )
               )
           )
       and not
               exists (
                   select
                     from invitations
                    where invitations.org_id = realms.org_id and invitations.email_key = users.email_key
                      and invitations.status = 'pending' and invitations.expires_at > now() and invitations.role <> 'member'
               )
       and not exists (
               select
                 from join_requests
                where join_requests.org_id = realms.org_id and join_requests.user_id = users.id
                  and (join_requests.status <> 'pending' or realms.join_policy = 'ask')
           );
    end if;
    may_know_of_failures := false;
    if given_service_slug is not null then
        select
           services.id as service_id, services.slug as service_slug, organizations.id as organization_id,
           organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active, services.is_agent,
           services.dpop_bound_access_tokens as binds_tokens
        from organizations
        join services on services.org_id = organizations.id
       where organizations.slug = given_organization_slug and services.slug = given_service_slug
          into service_id, service_slug, organization_id, organization_slug, organization_is_active, is_agent, binds_tokens;
        may_know_of_failures := (
               exists (
                   select from service_users
                    where service_users.service_id = find_attempt_15.service_id and service_users.user_id = users.id and (service_users.own_since is not null or service_users.first_login_at is not null and exists (
               select from memberships
                where memberships.org_id = service_users.org_id and memberships.user_id = service_users.user_id and memberships.own_since is not null
               offset 0
           ))
               )
            or exists (
               select from memberships
                where memberships.org_id = find_attempt_15.organization_id and memberships.user_id = users.id and memberships.own_since is not null
               offset 0
           )
           );
    elsif given_application_service is not null then
        may_know_of_failures := (
               exists (
                   select from service_users
                    where service_users.service_id = given_application_service::uuid and service_users.user_id = users.id and (service_users.own_since is not null or service_users.first_login_at is not null and exists (
               select from memberships
                where memberships.org_id = service_users.org_id and memberships.user_id = service_users.user_id and memberships.own_since is not null
               offset 0
           ))
               )
            or exists (
               select from memberships
                where memberships.org_id = given_application_organization::uuid and memberships.user_id = users.id and memberships.own_since is not null
               offset 0
           )
           );
    end if;
    return next;
end $$;

-- Locks what a sign-in rests on, and finds whether it still holds.
create or replace function last_look_15(
        given_user uuid, given_identity uuid, given_on_device uuid, given_service uuid, given_flow uuid, given_organization uuid,
        given_encoded text, given_email_key text, given_mail_domain text, given_since timestamptz, given_offered_again_after interval
    )
    returns table (
        id uuid, email text, is_platform_owner boolean, email_verified_at timestamptz, deactivated_at timestamptz, created_at timestamptz,
        language text, address_vouched_by text, is_connected boolean, flow_is_open boolean, one_factor_is_enough boolean, is_listed
        boolean, owes_answers boolean, offers_passkey boolean, belongs_to_several boolean, service_id uuid, service_slug text,
        organization_id uuid, organization_slug text, organization_is_active boolean, is_agent boolean, binds_tokens boolean, is_admitted
        boolean, owes_second_factor boolean, is_made_elsewhere boolean, may_know_of_failures boolean, subscription jsonb, tells_more
        boolean, rules_asked jsonb, has_hooks boolean, terms jsonb
    )
    language plpgsql volatile security invoker
    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    users record;
    services record;
    is_trusted boolean := false;
    entered uuid;
begin
    select users.id, users.email, users.is_platform_owner, users.email_verified_at, users.deactivated_at, users.created_at, users.language, users.address_vouched_by, users.email_key, users.origin_org_id, users.passkey_offered_at, users.passkey_offers_ended_at
      into users
      from users
     where users.id = given_user and users.deactivated_at is null
       and (given_encoded is null or users.password_hash = given_encoded)
       and (given_since is null or users.password_changed_at is null or users.password_changed_at <= given_since)
       for no key update;
    if not found then
        return;
    end if;
    id := users.id;
    email := users.email;
    is_platform_owner := users.is_platform_owner;
    email_verified_at := users.email_verified_at;
    deactivated_at := users.deactivated_at;
    created_at := users.created_at;
    language := users.language;
    address_vouched_by := users.address_vouched_by;
    entered := given_organization;
    is_connected := true;
    if given_identity is not null then
        is_connected := exists (
               select
                 from identities
                where identities.id = given_identity and identities.user_id = users.id
                  and (
                          identities.upstream_provider_id is null
                       or exists (
               select
                 from upstream_providers as providers
                 join organizations on organizations.id = providers.org_id and organizations.status = 'active'
                where providers.id = identities.upstream_provider_id and providers.enabled
                  and users.email_key = given_email_key and not users.is_platform_owner
                  and given_mail_domain::text = any ((
             select array_agg(proved.domain)
               from (
                        select domains.domain from domains where domains.org_id = providers.org_id and domains.verified_at is not null
                     union all
                        select domain_routes.domain
                          from domain_routes
                         where domain_routes.org_id = providers.org_id and domain_routes.verified_at is not null
                    ) as proved
         )::text[])
                  for key share of providers)
                      )
           );
    end if;
    flow_is_open := true;
    if given_flow is not null then
        perform from flows
          where flows.id = given_flow and flows.signed_in_at is null and flows.expires_at > now()
            for no key update;
        flow_is_open := found;
    end if;
    if given_on_device is not null and (
               exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null)
            or exists (select from passkeys where passkeys.user_id = users.id and passkeys.second_factor_since is not null)
           ) then
        perform from devices
          where devices.id = given_on_device and devices.user_id = users.id and devices.revoked_at is null and devices.trusted_until > now()
            for no key update;
        is_trusted := found;
    end if;
    owes_answers := false;
    is_admitted := false;
    owes_second_factor := false;
    is_made_elsewhere := false;
    may_know_of_failures := false;
    tells_more := false;
    has_hooks := false;
    if given_service is not null then
        perform from services
           join organizations on organizations.id = services.org_id
          where services.id = given_service
            for key share;
        -- This lock gives rows as they were before the wait.
        select services.id as service_id, services.slug as service_slug, organizations.id as organization_id,
           organizations.slug as organization_slug, organizations.status = 'active' as organization_is_active, services.is_agent,
           services.dpop_bound_access_tokens as binds_tokens, services.org_id, services.id, services.sign_in_policy
          into services
          from services
          join organizations on organizations.id = services.org_id
         where services.id = given_service;
        if found then
            select
        case services.sign_in_policy
            when 'anyone' then true
            when 'assigned' then holds_service_role(users.id, services.org_id, services.id)
            else exists (
               select from memberships where memberships.org_id = services.org_id and memberships.user_id = users.id and (
               users.address_vouched_by is null or memberships.own_since is not null
            or split_part(users.address_vouched_by, '/', 1) = memberships.org_id::text
           )
           )
        end, coalesce((
               select
           least(
               case
                   when organizations.mfa_required_since is not null and memberships.user_id is not null
                    and least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = asked.person limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = asked.person)
           ) is null
                   then greatest(organizations.mfa_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end,
               case
                   when organizations.admin_factor is not null and memberships.user_id is not null and (
               memberships.role in ('owner', 'admin')
            or exists (
                   select
                     from team_members
                     join teams on teams.id = team_members.team_id
                    where team_members.user_id = memberships.user_id and team_members.org_id = memberships.org_id and teams.role = 'admin'
               )
           )
                    and case organizations.admin_factor
                            when 'passkey' then least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = asked.person limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = asked.person)
           ) is null or not exists (select from passkeys where passkeys.user_id = asked.person)
                            else least(
               (select mfa_secrets.enabled_at from mfa_secrets where mfa_secrets.user_id = asked.person limit 1),
               (select min(passkeys.second_factor_since) from passkeys where passkeys.user_id = asked.person)
           ) is null
                        end
                   then greatest(organizations.admin_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end,
               case
                   when organizations.all_factor is not null and memberships.user_id is not null
                    and owes_passkey(organizations.all_factor, organizations.all_factor_role_id, organizations.id, memberships.user_id,
                                     asked.person)
                   then greatest(organizations.all_required_since, memberships.created_at) + organizations.mfa_grace_days * interval '1 day'
               end
           )
                 from (select services.org_id as organization, users.id as person) as asked
                 join organizations on organizations.id = asked.organization
                 join memberships on memberships.org_id = asked.organization and memberships.user_id = asked.person
           ) <= now(), false),
                   (
               exists (
                   select from service_users
                    where service_users.service_id = services.id and service_users.user_id = users.id and (service_users.own_since is not null or service_users.first_login_at is not null and exists (
               select from memberships
                where memberships.org_id = service_users.org_id and memberships.user_id = service_users.user_id and memberships.own_since is not null
               offset 0
           ))
               )
            or exists (
               select from memberships
                where memberships.org_id = services.org_id and memberships.user_id = users.id and memberships.own_since is not null
               offset 0
           )
           ), (
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
),
                   (
               exists (select from service_claims where service_claims.service_id = services.id offset 0)
               or exists (select from service_roles where service_roles.service_id = services.id offset 0)
               or exists (select from team_members where team_members.user_id = users.id and team_members.org_id = services.org_id offset 0)
           ), exists (select from hooks where hooks.org_id = services.org_id or hooks.org_id is null)
              into is_admitted, owes_second_factor,
                   may_know_of_failures, subscription,
                   tells_more, has_hooks;
            is_made_elsewhere := coalesce(users.origin_org_id <> services.org_id, false);
            entered := coalesce(entered, services.org_id);
            service_id := services.service_id;
        service_slug := services.service_slug;
        organization_id := services.organization_id;
        organization_slug := services.organization_slug;
        organization_is_active := services.organization_is_active;
        is_agent := services.is_agent;
        binds_tokens := services.binds_tokens;
        end if;
    end if;
    if given_identity is not null and is_connected then
        -- The provider is locked by now. Its domains and whether it is on are not.
        is_connected := exists (
               select
                 from identities
                where identities.id = given_identity and identities.user_id = users.id
                  and (
                          identities.upstream_provider_id is null
                       or exists (
               select
                 from upstream_providers as providers
                 join organizations on organizations.id = providers.org_id and organizations.status = 'active'
                where providers.id = identities.upstream_provider_id and providers.enabled
                  and users.email_key = given_email_key and not users.is_platform_owner
                  and given_mail_domain::text = any ((
             select array_agg(proved.domain)
               from (
                        select domains.domain from domains where domains.org_id = providers.org_id and domains.verified_at is not null
                     union all
                        select domain_routes.domain
                          from domain_routes
                         where domain_routes.org_id = providers.org_id and domain_routes.verified_at is not null
                    ) as proved
         )::text[])
                  for key share of providers)
                      )
           );
    end if;
    if given_flow is not null then
        owes_answers := owes_answers(users.id, users.created_at, given_flow);
    end if;
    offers_passkey := false;
    if given_offered_again_after is not null then
        offers_passkey := users.passkey_offers_ended_at is null
            and (users.passkey_offered_at is null or users.passkey_offered_at <= now() - given_offered_again_after)
            and may_be_offered_passkey(users.id);
    end if;
    select is_trusted or not (
               exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null)
            or exists (select from passkeys where passkeys.user_id = users.id and passkeys.second_factor_since is not null)
           ), exists (select from memberships where memberships.user_id = users.id and not (memberships.own_since is not null) offset 0),
           exists (
               select
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id
               offset 1
           ),
           risk_rules_asked(users.id, given_organization), terms_pending(users.id, entered)
      into one_factor_is_enough, is_listed,
           belongs_to_several,
           rules_asked, terms;
    return next;
end $$;
