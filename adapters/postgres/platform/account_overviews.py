"""The overview of an account for operators, read from the whole database. Operators ask for one person at a time, so the look-up may be
slow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

import msgspec

from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.statements import ask, only
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.platform.platform_users import (
    AccountOverview,
    CredentialSeen,
    IdentitySeen,
    LinkSeen,
    OrganizationRole,
    PasskeySeen,
    SignInAttempt,
)

MOST_ATTEMPTS: Final = 5
MOST_CREDENTIALS: Final = 20


_SEEN: Final[Mapping[str, Any]] = {
    "passkeys": PasskeySeen,
    "identities": IdentitySeen,
    "links": LinkSeen,
    "credentials": CredentialSeen,
    "organizations": OrganizationRole,
    "latest_attempts": SignInAttempt,
}


def _had(**rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {name: tuple(msgspec.convert(row, _SEEN[name]) for row in of_kind) for name, of_kind in rows.items()}


def _user(**columns: Any) -> tuple[Account, Mapping[str, Any]]:
    return ACCOUNT.taken(columns, locked_at=columns.pop("locked_at")), columns


class PostgresAccountOverviews(OnPool):
    """Implements `ports.platform.AccountOverviews`."""

    async def find(self, who: Email | UserId) -> AccountOverview | None:
        if isinstance(who, Email):
            users = await ask(self._pool, _user, _FIND_BY_EMAIL, {"email_key": who.key})
        else:
            users = await ask(self._pool, _user, _FIND_BY_ID, {"user": who})
        if not users:
            return None
        ((account, columns),) = users
        parameters = {"user": account.id, "most": MOST_CREDENTIALS, "most_attempts": MOST_ATTEMPTS}
        return _overview(account, **columns, **only(await ask(self._pool, _had, _HAD, parameters)))


def _overview(account: Account, *, pending_email: str | None, **columns: Any) -> AccountOverview:
    return AccountOverview(account, pending_email=None if pending_email is None else Email(pending_email), **columns)


_FIND: Final[LiteralString] = f"""
    select {ACCOUNT.names}, users.locked_at,
           users.pending_email, users.password_hash is not null as has_password, users.password_changed_at,
           {second_factor_since("users.id")} as mfa_enabled_at,
           (select count(*) from backup_codes where backup_codes.user_id = users.id and used_at is null) as backup_codes,
           live.sessions, live.impersonations, present.devices, present.trusted_devices
      from users
     cross join lateral (
               select count(*) as sessions, count(impersonator_id) as impersonations
                 from sessions
                where sessions.user_id = users.id and revoked_at is null and expires_at > now() and exchanged_from is null
           ) as live
     cross join lateral (
               select count(*) as devices, count(*) filter (where trusted_until > now()) as trusted_devices
                 from devices
                where devices.user_id = users.id and revoked_at is null
           ) as present
"""
_FIND_BY_EMAIL: Final[LiteralString] = f"{_FIND} where users.email_key = %(email_key)s"
_FIND_BY_ID: Final[LiteralString] = f"{_FIND} where users.id = %(user)s"

_PASSKEYS: Final = "select name, created_at, last_used_at from passkeys where user_id = %(user)s order by id"

_IDENTITIES: Final = """
    select coalesce(upstream_providers.name, identities.provider) as provider, identities.email, identities.linked_at
      from identities
      left join upstream_providers on upstream_providers.id = identities.upstream_provider_id
     where identities.user_id = %(user)s
     order by identities.linked_at, identities.id
"""

_LINKS: Final = """
    select purpose, expires_at
      from mailed_tokens
     where user_id = %(user)s and used_at is null and expires_at > now()
     order by created_at, digest
"""

# The statement reads each of the tables as a whole. An index on `created_by` would serve no other statement.
_CREDENTIALS: Final = """
    select kind, prefix, place, created_at
      from (
               select 'API key' as kind, api_keys.prefix, organizations.slug || '/' || services.slug as place, api_keys.created_at
                 from api_keys
                 join services on services.id = api_keys.service_id
                 join organizations on organizations.id = services.org_id
                where api_keys.created_by = %(user)s and coalesce(api_keys.expires_at > now(), true)
            union all
               select 'client secret', client_secrets.prefix, organizations.slug || '/' || services.slug, client_secrets.created_at
                 from client_secrets
                 join services on services.id = client_secrets.service_id
                 join organizations on organizations.id = services.org_id
                where client_secrets.created_by = %(user)s
            union all
               select 'set-up link', setup_links.prefix, organizations.slug, setup_links.created_at
                 from setup_links
                 join organizations on organizations.id = setup_links.org_id
                where setup_links.created_by = %(user)s and setup_links.expires_at > now() and setup_links.revoked_at is null
            union all
               select 'management key', management_keys.prefix, coalesce(organizations.slug, 'the platform'), management_keys.created_at
                 from management_keys
                 left join organizations on organizations.id = management_keys.org_id
                where %(user)s in (management_keys.created_by, management_keys.adopted_by) and management_keys.expires_at > now()
                  and (management_keys.org_id is null or organizations.id is not null)
            union all
               select 'SCIM token', scim_tokens.prefix, organizations.slug, scim_tokens.created_at
                 from scim_tokens
                 join organizations on organizations.id = scim_tokens.org_id
                where scim_tokens.created_by = %(user)s and coalesce(scim_tokens.expires_at > now(), true)
           ) as made
     order by created_at desc, prefix
     limit %(most_attempts)s
"""

_ORGANIZATIONS: Final = """
    select organizations.slug as organization, organizations.status = 'active' as is_active, memberships.role
      from memberships
      join organizations on organizations.id = memberships.org_id
     where memberships.user_id = %(user)s
     order by organizations.slug
"""

_ATTEMPTS: Final = """
    select created_at as at, success, host(address) as address, user_agent
      from login_events
     where user_id = %(user)s
     order by id desc
     limit %(most_attempts)s
"""


def _rows(statement: LiteralString, name: LiteralString) -> LiteralString:
    return f"array(select to_jsonb(one) from ({statement}) as one) as {name}"


# One round trip for all lists.
_HAD: Final[LiteralString] = f"""
    select {_rows(_PASSKEYS, "passkeys")}, {_rows(_IDENTITIES, "identities")}, {_rows(_LINKS, "links")},
           {_rows(_CREDENTIALS, "credentials")}, {_rows(_ORGANIZATIONS, "organizations")}, {_rows(_ATTEMPTS, "latest_attempts")}
"""
