-- additive
-- Organizations' own providers have a kind and a state, and speak SAML, too. The tables are small: one row for each provider.

alter table upstream_providers
    alter column client_id drop not null,
    alter column sealed_client_secret drop not null,
    add column kind                    text not null default 'oidc' constraint upstream_providers_kind check (kind in ('oidc', 'saml')),
    add column state                   text not null default 'active'
        constraint upstream_providers_state check (state in ('draft', 'tested', 'active')),
    add column saml                    jsonb,
    add column certificate             text,
    add column sealed_private_key      bytea,
    add column next_certificate        text,
    add column next_sealed_private_key bytea,
    add column secret_set_at           timestamptz,
    add column tested_digest           bytea,
    add column tested_at               timestamptz,
    add column activated_at            timestamptz;

-- So that every statement which asks whether a provider is enabled, also of an older process, leaves drafts out.
alter table upstream_providers
    add constraint upstream_providers_drafts_are_off check (state = 'active' or not enabled),
    add constraint upstream_providers_whole check (
        case kind
            when 'oidc' then client_id is not null and sealed_client_secret is not null and saml is null
            else client_id is null and sealed_client_secret is null and saml is not null and certificate is not null
                 and sealed_private_key is not null
        end
    ),
    add constraint upstream_providers_next check ((next_certificate is null) = (next_sealed_private_key is null));
