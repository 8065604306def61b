-- additive
--
-- Most scopes of APIs ask for no permission, and then nothing has to be looked up: as one expression, the rule set its look-ups up all the
-- same, which was half of what a code for an API cost.

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
