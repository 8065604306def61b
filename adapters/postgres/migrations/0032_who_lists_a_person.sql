-- additive
--
-- Who lists a person in an organization: SCIM by a token, one connection by LDAP, or nobody. The rows that are there count as SCIM's, unless a
-- connection lists the person: docs/decisions/0197-who-lists-a-person.md.

alter table provisioned_users add column is_scims boolean not null default true;
-- The token that wrote the row last. Without a foreign key: a token that is gone lists nobody, and leaves its rows as they are.
alter table provisioned_users add column scim_token_id uuid;

-- An owner has decided that the person is the organization's own member, whatever this directory says, as long as they are a member.
alter table directory_people add column is_kept boolean not null default false;

-- A first plan names who comes. Every row fits, since each fitted the narrower constraint.
alter table directory_run_people drop constraint directory_run_people_what_check;
alter table directory_run_people
  add constraint directory_run_people_what_check check (what in ('end', 'left_out', 'comes')) not valid;

-- Who has started a test: it ends with their session, key or link, and with their right. Without foreign keys: what is gone lets nobody go on.
-- Tests of a process of the release before have none of these, and end within minutes.
alter table connection_tests add column session_id uuid;
alter table connection_tests add column management_key_id uuid;
alter table connection_tests add column setup_link_id uuid;
