-- additive
-- By which identity somebody has come in who still owes the second factor: with the identity, or its provider, their sign-in ends. What
-- lagging processes begin names none, and can be finished for ten minutes, as before.

alter table preauthentications add column identity_id uuid references identities on delete cascade;
create index preauthentications_of_identity on preauthentications (identity_id) where identity_id is not null;
