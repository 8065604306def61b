-- additive
-- What a person allows a SAML service provider is no consent to an application of OpenID Connect, and the other way round: each has a column.
-- A process of the release before asks anew where there are no scopes, as it does without a row.

alter table consents alter column scopes drop not null;
alter table consents add column saml_entity_id text;
