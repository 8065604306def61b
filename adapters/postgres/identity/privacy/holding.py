"""Whose account it is. Before a tenant deactivates or deletes an account, `IS_THE_MAKERS` tells whether the tenant has made it and nobody
else holds it. Before a tenant moves or forgets one, the ties tell whether anything outside the tenant uses the account at all: whatever
others have of its person would go over to the next holder of the account.
"""

from typing import Final, LiteralString

from adapters.postgres.identity.addresses import is_unproved, nobody_knows
from core.domain.identity.upstream.sign_in import FEDERATED


# A condition on a row of `users`: the same as `MadeAccount.is_the_makers` in the domain. `users.origin_org_id` is the organization that has
# made the account, and `held_accounts` has each made account that its person once let somebody else hold.
def is_the_makers(organization: LiteralString) -> LiteralString:
    return f"""(
               users.origin_org_id = {organization} and not users.is_platform_owner
           and (users.deactivated_at is null or users.deactivated_at = users.locked_at
                or users.deactivated_by is not distinct from {organization})
           and not exists (select from held_accounts where held_accounts.user_id = users.id)
           )"""


IS_THE_MAKERS: Final[LiteralString] = is_the_makers("%(organization)s")


def holding_by_use(person: LiteralString, at: LiteralString, methods: LiteralString, condition: LiteralString) -> LiteralString:
    """Stores that the person has opened a session at another organization's service. `methods` are those that the session rests on. A
    visit through an organization's own provider holds nothing: the organization opens that way in, not the person. `condition` is a
    `from` and `where`, which compare `origin_org_id` of the account with the service's organization.
    """
    return f"""
             insert into held_accounts (user_id, held_since)
             select {person}, {at}
              {condition}
                and (
                        '{FEDERATED}' <> all ({methods})
                     or exists (select from identities where user_id = {person} and upstream_provider_id is null)
                     or not exists (select from identities where user_id = {person})
                    )
                 on conflict (user_id) do nothing"""


# What other organizations have of the person, before the maker deletes the account. An organization that is being deleted hears nothing.
ELSEWHERE: Final[LiteralString] = """
    select array(select org_id from memberships where user_id = %(user)s and org_id <> %(organization)s) as members_of,
           array(
               select organizations.id
                 from organizations
                where organizations.id <> %(organization)s
                  and organizations.id in (
                          select org_id from memberships where user_id = %(user)s
                           union all
                          select org_id from provisioned_users where user_id = %(user)s
                           union all
                          select org_id from service_users where user_id = %(user)s
                      )
                order by organizations.id
           ) as known_to,
           exists (
               select
                 from subscriptions
                 join all_services on all_services.id = subscriptions.service_id and all_services.org_id <> %(organization)s
                where subscriptions.user_id = %(user)s and subscriptions.status in ('active', 'past_due')
           ) as is_subscribed
"""

# Each membership that ends changes a number of its organization, and organizations are locked before accounts.
HOLD_ORGANIZATIONS: Final = """
    select id
      from all_organizations
     where id = %(also)s
        or id in (
               select memberships.org_id
                 from memberships
                 join users on users.id = memberships.user_id
                where memberships.user_id = %(user)s and users.origin_org_id = %(organization)s
           )
     order by id
       for no key update
"""

# The ties of a row of `users`. A directory may reactivate people, so it keeps a tie to every account that it knows. An organization or a
# service that is being deleted still holds an account. `has_come` is false for a person whom a service has added and who has not signed in
# to the service yet.
TIES: Final[LiteralString] = """
               select 'membership' as kind, memberships.org_id, null::uuid as service_id, true as has_come
                 from memberships
                where memberships.user_id = users.id
                union all
               select 'directory', provisioned_users.org_id, null, true
                 from provisioned_users
                where provisioned_users.user_id = users.id
                union all
               select 'service', service_users.org_id, service_users.service_id, service_users.first_login_at is not null
                 from service_users
                where service_users.user_id = users.id
                union all
               select 'ownership', all_organizations.id, null, true
                 from all_organizations
                where all_organizations.owner_user_id = users.id
"""


def held_by(ties: LiteralString) -> LiteralString:
    """A condition on a row of `users`: one of the ties that meet the condition `ties`, or the platform, holds the account."""
    return f"(users.is_platform_owner or exists (select from ({TIES}) as ties where {ties}))"


# If anything else holds the account, the tenant may not decide about it, even if the tenant has created it.
HELD_BY_NOTHING_ELSE: Final[LiteralString] = "not " + held_by("ties.kind = 'ownership' or ties.org_id <> %(organization)s")

# Only an account that this organization has created: not the account of a person who registered on their own, or whom a service let in.
BELONGS_HERE_ALONE: Final[LiteralString] = f"""
    select (users.origin_org_id is not distinct from %(organization)s or memberships.came_by = 'created') and {HELD_BY_NOTHING_ELSE} as yes
      from users
      join memberships on memberships.user_id = users.id and memberships.org_id = %(organization)s
     where users.id = %(user)s
"""

# `former_addresses` keeps each proved address that an account has given up, so a row there means that somebody has proved an address.
_IS_NOBODYS: Final[LiteralString] = f"""
           {is_unproved()} and users.deactivated_at is null and not {held_by("true")}
           and not exists (select from former_addresses where former_addresses.user_id = users.id)
"""

NOBODYS: Final[LiteralString] = f"""
    select {_IS_NOBODYS} as yes
      from users
     where users.id = %(user)s
"""

# Rows of these tables and columns come by a use of the account, or by an import.
_USES: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    *(("sessions", "user_id"), ("sessions", "impersonator_id"), ("devices", "user_id"), ("preauthentications", "user_id")),
    *(("passkeys", "user_id"), ("identities", "user_id"), ("mfa_secrets", "user_id"), ("backup_codes", "user_id")),
    *(("consents", "user_id"), ("authorization_codes", "user_id"), ("device_codes", "user_id"), ("oauth_states", "user_id")),
    ("afar_blocks", "user_id"),
    *(("subscriptions", "user_id"), ("billing_checkouts", "user_id"), ("relations", "user_id"), ("profile_values", "user_id")),
    *(("pictures", "user_id"), ("impersonations", "impersonator_id"), ("impersonations", "user_id"), ("invitations", "invited_by")),
    *(("join_requests", "user_id"), ("join_requests", "decided_by"), ("former_members", "user_id"), ("managed_objects", "managed_by")),
    *(("imported_people", "user_id"), ("held_accounts", "user_id"), ("terms_acceptances", "user_id"), ("terms", "set_by")),
)


def _no_row(table: LiteralString, column: LiteralString) -> LiteralString:
    return f"not exists (select from {table} where {table}.{column} = users.id)"


NEVER_USED: Final[LiteralString] = f"""
    select users.id
      from users
     where users.id = any (%(users)s::uuid[])
       and {_IS_NOBODYS} and {nobody_knows()}
       and {" and ".join(_no_row(table, column) for table, column in _USES)}
       and not exists (select from login_events where login_events.user_id = users.id and login_events.success)
       and not exists (
               select
                 from mailed_tokens
                where mailed_tokens.user_id = users.id and mailed_tokens.used_at is null
                  and mailed_tokens.expires_at > least(%(now)s, now())
           )
     order by users.id
"""
