-- additive
--
-- Directories that speak LDAP, beside providers of OpenID Connect and SAML. Nothing of it is used before somebody makes such a connection. A
-- process of the release before cannot list the providers of an organization that has one.

alter table upstream_providers add column ldap                 jsonb;  -- the settings of LDAP
alter table upstream_providers add column sealed_bind_password bytea;  -- with the digest of what it belongs to
alter table upstream_providers drop constraint upstream_providers_kind;
alter table upstream_providers add constraint upstream_providers_kind check (kind in ('oidc', 'saml', 'ldap'));
alter table upstream_providers drop constraint upstream_providers_whole;
alter table upstream_providers add constraint upstream_providers_whole check (
    case kind
        when 'oidc' then client_id is not null and sealed_client_secret is not null and saml is null
        when 'saml' then client_id is null and sealed_client_secret is null and saml is not null and certificate is not null
             and sealed_private_key is not null
        else client_id is null and sealed_client_secret is null and saml is null and sealed_private_key is null
    end
);
alter table upstream_providers add constraint upstream_providers_ldap check (
    (kind = 'ldap') = (ldap is not null) and (sealed_bind_password is null or (kind = 'ldap' and secret_set_at is not null))
);

-- Wrong passwords that a directory got from us, by whom they were about: so that nobody locks people out of their directory by us. The id is
-- derived from the provider and the person's identity there.
create table directory_failures (
    id                   uuid        primary key,
    upstream_provider_id uuid        not null references upstream_providers on delete cascade,
    failures             integer     not null,
    under_way            integer     not null,            -- passwords that the directory has not judged yet
    expires_at           timestamptz not null             -- from then on the directory counts anew
);
create index directory_failures_expired on directory_failures (expires_at);
create index directory_failures_of_provider on directory_failures (upstream_provider_id, id);
