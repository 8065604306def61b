-- additive
--
-- Scopes of APIs may ask for a second factor. A process of the release before does not ask for one, and calls the function of three
-- arguments, which stays.

-- Whether a sign-in by these methods reaches what one of the API's scopes asks for. Only a second factor can be asked for.
create function resource_scope_is_reached(scope jsonb, methods text[]) returns boolean
    language plpgsql immutable as $$
begin
    return coalesce(scope -> 'acr_values', '[]') = '[]' or 'mfa' = any (methods);
end $$;

-- The open APIs among the granted ones, with the scopes that the person still holds there, and that the sign-in reaches.
create function open_audiences(granted jsonb, person uuid, service uuid, methods text[]) returns jsonb
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
    );
end $$;
