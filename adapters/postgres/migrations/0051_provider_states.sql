-- additive
--
-- A further provider has a state. Those that are there stay active. A draft is never enabled, so the statements of the release before, which
-- ask whether a provider is enabled, leave drafts out.

alter table further_providers
    add column state         text        not null default 'active' check (state in ('draft', 'active')),
    add column tested_digest bytea,                              -- of the settings that the last successful test was about; null: none
    add column tested_at     timestamptz,
    -- What ids meant under issuers of before, while people hang on them: by issuer, the address of the profile and the path of the id.
    add column namings       jsonb       not null default '{}' check (jsonb_typeof(namings) = 'object'),
    add constraint further_providers_drafts_are_off check (state = 'active' or not enabled);
