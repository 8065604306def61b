-- additive
-- Claims that a service's tokens and assertions have besides the standard ones.

create table service_claims (
    id         uuid        primary key,
    service_id uuid        not null references all_services on delete cascade,
    name       text        not null,
    source     text        not null check (source in ('person_field', 'organization_field', 'roles', 'permissions', 'teams', 'organization',
                                                      'plan', 'features', 'constant')),
    argument   jsonb,                                    -- the key of the field, the part of the organization, or the constant
    told_in    text[]      not null check (told_in <@ array['id_token', 'userinfo', 'access_token', 'saml']),
    created_at timestamptz not null,
    unique (service_id, name)
);

-- What a consent for SAML covers, in the words of scopes. Null: the consent is older than this column, and covers the address and the role.
alter table consents add column saml_scopes text[];
