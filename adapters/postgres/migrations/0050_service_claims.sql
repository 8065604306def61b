-- additive
-- Claims that a service's tokens and assertions have besides the standard ones.

create table service_claims (
    service_id uuid        not null references all_services on delete cascade,
    name       text        not null,
    source     text        not null check (source in ('person_field', 'organization_field', 'roles', 'permissions', 'teams', 'organization',
                                                      'plan', 'features', 'constant')),
    argument   jsonb,                                    -- the key of the field, or the constant
    told_in    text[]      not null check (told_in <@ array['id_token', 'userinfo', 'access_token', 'saml']),
    created_at timestamptz not null,
    primary key (service_id, name)
);
