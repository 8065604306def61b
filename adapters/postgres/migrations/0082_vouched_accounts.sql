-- additive, in steps
-- Accounts whose address nobody but an organization's own provider has ever stated. What cannot be told stays as it is.

-- step: batches of users by id
update users
   set email_verified_at = null, address_vouched_by = made.voucher
  from (
           select identities.user_id, identities.linked_at, providers.org_id || '/' || providers.id as voucher
             from identities
             join upstream_providers as providers on providers.id = identities.upstream_provider_id
       ) as made
 where id between %(first)s and %(last)s and made.user_id = users.id
-- The account was made with an address that counted as proved, and with this identity.
   and users.email_verified_at = users.created_at and not users.is_platform_owner and users.anonymized_at is null
   and made.linked_at >= users.created_at and made.linked_at < users.created_at + interval '10 seconds'
-- Nobody has shown since that they read the mailbox.
   and not exists (
           select
             from mailed_tokens
            where mailed_tokens.user_id = users.id and mailed_tokens.used_at is not null and mailed_tokens.purpose <> 'sign_in'
       )
   and not exists (
           select from login_events where login_events.user_id = users.id and login_events.success and login_events.provider = 'link'
       )
   and not exists (
           select
             from audit_entries
            where audit_entries.target_type = 'user' and audit_entries.target_id = users.id::text
              and (
                      audit_entries.action = 'security.password.changed' and audit_entries.details ->> 'how' = 'reset'
                   or audit_entries.action in ('user.email.verified', 'user.email.changed')
                  )
       )
-- Who chose the password of an account whose log is gone cannot be told.
   and (
           users.password_changed_at is null
        or exists (
               select
                 from audit_entries
                where audit_entries.target_type = 'user' and audit_entries.target_id = users.id::text
                  and audit_entries.action = 'security.password.changed'
           )
       );

-- step: index users_vouched
create index concurrently users_vouched on users (address_vouched_by) where address_vouched_by is not null;

-- step: index users_nobody_knows
create index concurrently users_nobody_knows on users (created_at)
 where email_verified_at is null and address_vouched_by is null and deactivated_at is null and origin_org_id is null and not is_platform_owner;

-- step: drop index users_unproved of users
drop index concurrently users_unproved;
