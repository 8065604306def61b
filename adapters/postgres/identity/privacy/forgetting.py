"""Whose account it is, and the changes that forgetting a person makes in each table.

Before a tenant deactivates or deletes an account, `IS_THE_MAKERS` tells whether the tenant has made it and nobody
else holds it. Before a tenant moves or forgets one, the ties tell whether anything outside the tenant uses the account at all: whatever
others have of its person would go over to the next holder of the account.

The request to forget a person makes as many of the changes itself as fit into a second. The job makes all of them, in batches, and makes
them once more for rows that other requests were still writing meanwhile.

The parameters: `user`; `target`, the same id as text; `keys`, the addresses that the person has; `until`, the time of the request, because
somebody else may have such an address later; `limit`; and in the job `after`, the last row of the previous batch. The table
`former_addresses` has the addresses that the person had before, each with a `held_until` of its own.
"""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.identity.addresses import is_unproved, nobody_knows
from adapters.postgres.identity.sessions.parts import noticing
from adapters.postgres.record.audit import names
from core.domain.identity.upstream.sign_in import FEDERATED
from core.domain.record.audit import FORGOTTEN_ADDRESS, FORGOTTEN_USER_AGENT


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


NOBODY: Final = "anonymized@deleted.local"
"""Replaces the address to which an invitation was sent."""

# The order is that in which other code locks these rows: a change of the second factor locks the factor before the devices whose trust it
# ends, the revocation of a device locks the device before its sessions, a refresh locks the token before its session, and presence locks
# sessions by id.
HOLDS: Final[tuple[LiteralString, ...]] = (
    "select from identities where user_id = %(user)s order by id for update",
    "select from mfa_secrets where user_id = %(user)s for update",
    "select from passkeys where user_id = %(user)s order by id for update",
    "select from devices where user_id = %(user)s order by id for update",
    """
    select
      from refresh_tokens
     where session_id = any (array(select id from sessions where user_id = %(user)s))
     order by digest
       for update
    """,
    # The sessions end in this transaction, so their services get logout notices.
    f"""
    with held as (
             select id, user_id, service_id, revoked_at
               from sessions
              where user_id = %(user)s or impersonator_id = %(user)s
              order by id
                for update
         )
    {noticing("(select id, user_id, service_id from held where revoked_at is null)")}
    """,
)

# What the person said of themselves. The account has it, so these statements come after the account is held. `used_usernames` stays: a user
# name is never issued twice.
PROFILE: Final[tuple[LiteralString, ...]] = (
    """
    update users
       set name = null, given_name = null, family_name = null, username = null, zoneinfo = null, picture_id = null,
           profile_updated_at = null
     where id = %(user)s and profile_updated_at is not null
    """,
    "delete from pictures where user_id = %(user)s",
)
# Everything with which the account could be used, and the devices from which it was used. Refresh tokens and cookies go with the sessions.
_OF_THE_HOLDER: Final[tuple[LiteralString, ...]] = (
    "delete from mfa_secrets where user_id = %(user)s",
    "delete from backup_codes where user_id = %(user)s",
    "delete from passkeys where user_id = %(user)s",
    "delete from mailed_tokens where user_id = %(user)s",
    "delete from preauthentications where user_id = %(user)s",
    "delete from authorization_codes where user_id = %(user)s",
    "delete from afar_requests where user_id = %(user)s",
    "delete from afar_blocks where user_id = %(user)s",
    "delete from flows where user_id = %(user)s",
    "delete from sessions where user_id = %(user)s or impersonator_id = %(user)s",
    "delete from devices where user_id = %(user)s",
    "delete from consents where user_id = %(user)s",
    "delete from terms_acceptances where user_id = %(user)s",
    "delete from user_keys where user_id = %(user)s",
    # The tokens that services have at the providers go with the identities.
    "delete from identities where user_id = %(user)s",
    "delete from oauth_states where user_id = %(user)s",
    # What the installation and organizations keep of the person by fields.
    "delete from profile_values where user_id = %(user)s",
    "update service_users set metadata = '{}' where user_id = %(user)s and metadata <> '{}'",
    # A join request names the address with which the person asked to become a member.
    "delete from join_requests where user_id = %(user)s",
)
_FROM_WHERE: Final[tuple[LiteralString, ...]] = (
    "update device_codes set address = null, user_agent = null where user_id = %(user)s",
    "update device_codes set state = 'denied' where user_id = %(user)s and state = 'approved'",
    f"update impersonations set reason = '{FORGOTTEN_USER_AGENT}' where user_id = %(user)s",
)
CREDENTIALS: Final[tuple[LiteralString, ...]] = (
    *_OF_THE_HOLDER,
    *PROFILE,
    # The data that directories have sent about the person, with the person's names.
    "delete from directory_people where user_id = %(user)s",
    "delete from directory_run_people where user_id = %(user)s",
    "delete from provisioned_users where user_id = %(user)s",
    # The roles of services that are assigned to the person.
    "delete from relations where user_id = %(user)s and service_id is not null",
    "delete from team_members where user_id = %(user)s",
    *_FROM_WHERE,
)

# For an account that goes to another person. That person has not signed in to any service yet, and has not accepted the invitations.
HANDED_OVER: Final[tuple[LiteralString, ...]] = (
    *_OF_THE_HOLDER,
    *PROFILE,
    *_FROM_WHERE,
    "delete from login_events where user_id = %(user)s",
    "delete from mfa_events where user_id = %(user)s",
    # What an organization gave to the earlier holder: otherwise whoever moves the account would choose who has it. What a directory's teams
    # give comes from the directory, which knows whose account it is.
    "delete from relations where user_id = %(user)s and service_id is not null",
    """
    delete from team_members
     using teams
     where team_members.user_id = %(user)s and teams.id = team_members.team_id and teams.source = 'own'
    """,
    "update memberships set own_since = null where user_id = %(user)s and own_since is not null",
    """
    update service_users
       set first_login_at = null, last_login_at = null, own_since = null
     where user_id = %(user)s and (first_login_at is not null or own_since is not null)
    """,
)

# The salt goes, too. Without the salt, the commitment that a SIEM has received says nothing about the deleted values.
_LOGIN: Final[LiteralString] = (
    f"address = '{FORGOTTEN_ADDRESS}', user_agent = '{FORGOTTEN_USER_AGENT}', country = null, city = null, spot = null, device_id = null,"
    " salt = null"
)
_FACTOR: Final[LiteralString] = f"address = '{FORGOTTEN_ADDRESS}', user_agent = '{FORGOTTEN_USER_AGENT}', details = '{{}}'"


def _newest(table: LiteralString, change: LiteralString) -> LiteralString:
    return f"""
        update {table}
           set {change}
         where id = any (array(select id from {table} where user_id = %(user)s order by id desc limit %(limit)s))
    """


def _batch(table: LiteralString, change: LiteralString) -> LiteralString:
    return f"""
        with batch as (
                 select id from {table} where user_id = %(user)s and id > %(after)s order by id limit %(limit)s
             ),
             gone as (
                 update {table} set {change} from batch
                  where {table}.id = batch.id
                    and (
                        {table}.user_agent is distinct from '{FORGOTTEN_USER_AGENT}'
                     or {table}.address is distinct from '{FORGOTTEN_ADDRESS}'
                    )
              returning 1
             )
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
    """


# `NOBODY` replaces forgotten addresses. It is left out, because each search for it would find the rows that are already changed.
_THEIRS: Final = f"""
    select key, until
      from (
               select unnest(%(keys)s::text[]), %(until)s::timestamptz
                union all
               select email_key, held_until from former_addresses where user_id = %(user)s
           ) as had (key, until)
     where key <> '{NOBODY}'
"""

# The invitations that were sent to an address while the address was the person's, or that the person has accepted. A pending invitation is
# closed, because the invitation names the person.
_INVITATIONS: Final = f"""
          select invitations.id, invitations.org_id
            from ({_THEIRS}) as theirs
            join invitations on invitations.email_key = theirs.key and invitations.created_at <= theirs.until
       union
          select invitations.id, invitations.org_id
            from audit_entries
            join invitations on invitations.id = (audit_entries.details ->> 'invitation_id')::uuid
           where audit_entries.target_type = 'user' and audit_entries.target_id = %(target)s and audit_entries.action = 'user.joined'
             and invitations.email_key <> '{NOBODY}'
"""

# The audit entries stay, without the parts that identify the person. The entry that records the forgetting keeps its personal part: that
# part identifies the person who has done it, and says nothing else about the forgotten one.
_ENTRIES_OF: Final = "select entry_id from audit_personal where actor_id = %(user)s limit %(limit)s"
_ENTRIES_ABOUT: Final = """
    select personal.entry_id
      from audit_entries as entries
      join audit_personal as personal on personal.entry_id = entries.id
     where entries.target_type = 'user' and entries.target_id = %(target)s and entries.action <> 'user.anonymized'
     limit %(limit)s
"""
_ENTRIES_OF_INVITATIONS: Final = f"""
    select personal.entry_id
      from ({_INVITATIONS}) as sent
      join audit_entries as entries on entries.organization_id = sent.org_id and entries.target_type in ('invitation', 'user')
                                   and entries.target_id = sent.id::text
      join audit_personal as personal on personal.entry_id = entries.id
"""
_EVENTS_OF: Final = "select id from events where personal is not null and actor_id = %(user)s limit %(limit)s"
_EVENTS_ABOUT: Final = """
    select id
      from events
     where personal is not null and target_id = %(target)s and target_type = 'user' and name <> 'user.anonymized'
     limit %(limit)s
"""
_EVENTS_OF_INVITATIONS: Final = f"""
    select events.id
      from ({_INVITATIONS}) as sent
      join events on events.personal is not null and events.target_id = sent.id::text
"""

_INVITATION: Final[LiteralString] = f"""
        update invitations
           set email = '{NOBODY}', email_key = '{NOBODY}',
               status = case status when 'pending' then 'cancelled' else status end, closed_at = coalesce(closed_at, %(until)s)
         where id = any (array(select sent.id from ({_INVITATIONS}) as sent))
"""


def _unsay(table: LiteralString, key: LiteralString, change: LiteralString, rows: LiteralString) -> LiteralString:
    """`rows` finds only the rows that still need the change."""
    return f"{change} where {table}.{key} = any (array({rows}))"


_DELETE_ENTRIES: Final = "delete from audit_personal"
_EMPTY_EVENTS: Final = "update events set personal = null"

# The order matters. The address of an invitation leads to the invitation's entries and events. So all of these change before the
# invitation loses its address. One organization sends an address a few invitations an hour at most.
_UNSAID: Final[Mapping[str, LiteralString]] = {
    "entries_of": _unsay("audit_personal", "entry_id", _DELETE_ENTRIES, _ENTRIES_OF),
    "entries_about": _unsay("audit_personal", "entry_id", _DELETE_ENTRIES, _ENTRIES_ABOUT),
    "entries_of_invitations": _unsay("audit_personal", "entry_id", _DELETE_ENTRIES, _ENTRIES_OF_INVITATIONS),
    "events_of": _unsay("events", "id", _EMPTY_EVENTS, _EVENTS_OF),
    "events_about": _unsay("events", "id", _EMPTY_EVENTS, _EVENTS_ABOUT),
    "events_of_invitations": _unsay("events", "id", _EMPTY_EVENTS, _EVENTS_OF_INVITATIONS),
}


def _in_order(table: LiteralString, key: LiteralString, *rows: LiteralString) -> LiteralString:
    found = " union all ".join([f"({one})" for one in rows])
    return f"select from {table} where {key} = any (array({found})) order by {key} for update"


AT_ONCE: Final[tuple[LiteralString, ...]] = (
    _newest("login_events", _LOGIN),
    _newest("mfa_events", _FACTOR),
    # Entries and events about two people are found from both sides. Two requests that forget both people at once lock the rows in one
    # order, so that they do not deadlock.
    _in_order("audit_personal", "entry_id", _ENTRIES_OF, _ENTRIES_ABOUT, _ENTRIES_OF_INVITATIONS),
    _in_order("events", "id", _EVENTS_OF, _EVENTS_ABOUT, _EVENTS_OF_INVITATIONS),
    *_UNSAID.values(),
    _INVITATION,
)


def _until_none_is_left(statement: LiteralString) -> LiteralString:
    return f"""
        with gone as ({statement} returning 1)
        select case when exists (select from gone) then %(user)s::uuid end as last, (select count(*) from gone) as rows
    """


def _names_them(text: LiteralString, at: LiteralString) -> LiteralString:
    """A condition: the text, which was written at that time, names an address that was the person's at that time."""
    return f"exists (select from ({_THEIRS}) as theirs where {at} <= theirs.until and {names(text, 'theirs.key')})"


_SAID_IN_FLOWS: Final = "concat_ws(' ', email, wanted::text, request::text)"
# The earliest time at which the request can have been pushed.
_PUSHED_AT: Final = "expires_at - interval '1 hour'"

# The statements of the job. Each statement returns `last`, where the next batch begins, and `rows`, the number of rows that it changed.
PARTS: Final[Mapping[str, LiteralString]] = {
    "login_events": _batch("login_events", _LOGIN),
    "mfa_events": _batch("mfa_events", _FACTOR),
    **{name: _until_none_is_left(statement) for name, statement in _UNSAID.items()},
    "invitations": _until_none_is_left(_INVITATION),
    # A receiver's answer may repeat the event that the receiver got. This part deletes the answers to events about the person, and the
    # answers that name one of the person's addresses: nothing else leads to the events about invitations any more.
    "webhook_deliveries": f"""
        with batch as (
                 select id, event_id, response_body
                   from webhook_deliveries
                  where id > %(after)s
                  order by id
                  limit 10 * %(limit)s
             ),
             about as (
                 select batch.id
                   from batch
                   join events on events.id = batch.event_id
                  where batch.response_body is not null
                    and (
                            events.actor_id = %(user)s
                         or events.target_id = %(target)s
                         or {_names_them("batch.response_body", "events.occurred_at")}
                        )
             ),
             gone as (
                 update webhook_deliveries set response_body = null from about where webhook_deliveries.id = about.id returning 1
             )
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
    """,
    # A person who cannot sign in any more must not go on paying.
    "billing_subscriptions": _until_none_is_left(
        "update billing_subscriptions set cancel_at = now() where user_id = %(user)s and not is_over and cancel_at is null"
    ),
    # Flows and pushed requests live for an hour at most, and their texts have no index.
    "flows": _until_none_is_left(f"delete from flows where {_names_them(_SAID_IN_FLOWS, 'created_at')}"),
    "pushed_requests": _until_none_is_left(f"delete from pushed_requests where {_names_them('request::text', _PUSHED_AT)}"),
}
