-- additive
--
-- Agents: services that act for people, until a date that the person has chosen. A process of the release before knows no agents. What it
-- opens for one ends at the next look of a process of this release, which asks for the person's consent until a date.

alter table all_services add column is_agent boolean not null default false;
alter table all_services add column agent_since timestamptz;            -- what people allowed before counts no more; null: all counts
alter table all_organizations add column agents text not null default 'allowed' check (agents in ('allowed', 'forbidden'));
alter table all_organizations add column agents_since timestamptz;      -- as `agent_since`, for all agents of the organization

create or replace view services as
    select id, org_id, slug, name, service_type, client_id, codehost_scopes, websuite_scopes, officesuite_scopes, redirect_uris,
           device_activation_uri, user_count, created_at, updated_at, sign_in_policy, trusted, jwks, id_token_alg, post_logout_redirect_uris,
           backchannel_logout_uri, backchannel_logout_session_required, jwks_uri, jwks_fetched_at, credential_removed_at, metadata,
           assertion_audience, access_token_alg, kept_client_id, coalesce(kept_client_id, client_id::text) as oauth_client_id,
           is_agent, agent_since
      from all_services
     where deleted_at is null;

create or replace view organizations as
    select id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at, rejection_reason,
           suspended_at, suspension_reason, member_count, logo_url, primary_color, device_trust_days, created_at, updated_at,
           mfa_required_since, mfa_grace_days, session_hours, invitation_domains, sign_in_links, logo_digest, metadata,
           help_url, privacy_url, terms_url, admin_factor, admin_required_since, metadata_clients, metadata_hosts, agents, agents_since
      from all_organizations
     where deleted_at is null;

-- An agent's grant: the person's consent at one API, until a date. Null for ordinary applications.
alter table resource_consents add column id uuid;
alter table resource_consents add column expires_at timestamptz;

-- Whether the consent lets an agent act. Only statements about agents call it.
create function agent_consent_lives(consent resource_consents) returns boolean
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
create function agent_acts_until(granted jsonb, person uuid, service uuid, began timestamptz) returns timestamptz
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

-- Whether the person allows the service everything that is granted. A consent that has ended counts as none.
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
               )
    );
end $$;
