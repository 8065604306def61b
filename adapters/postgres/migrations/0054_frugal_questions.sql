-- additive
-- Questions of sign-ins and tokens that cost nobody anything who is not concerned, and little those who are.

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

-- Whether a page has to ask a person for a field. `since`: when the person came to the keeper of the field. PostgreSQL makes it a part of the
-- statement that asks.
create function is_to_be_asked(field profile_fields, kept profile_values, since timestamptz) returns boolean
    language sql stable as $$
    select (field.asked_at = 'sign_in' or field.asked_at = 'registration' and since >= field.created_at)
       and (kept.values is null or not kept.values ? field.id::text)
       and (field.required or kept.asked is null or field.id <> all (kept.asked))
$$;

-- Whether the page that asks for fields may have something to ask this person, in the flow of this id. The page itself reads the fields, and
-- leaves out those of an organization whose service does not admit the person. A function and not a part of the statement that asks, since
-- PostgreSQL sets up all parts of a statement at each run, and an installation where nobody asks for a field needs none of this. It is volatile,
-- so it sees what others have committed while its statement waited for a lock.
create function owes_answers(person uuid, account_created_at timestamptz, flow uuid) returns boolean
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
