-- additive
-- Which service provider was given somebody's name, by its entity id. One that takes its place was not. Null: a process of the release
-- before wrote it, and it is taken for the one that is configured.

alter table saml_sessions add column audience text;
