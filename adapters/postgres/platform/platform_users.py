"""Users as platform owners and operators see them, and the platform owners themselves, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec

from adapters.postgres import locks
from adapters.postgres.columns import AnswerRow, IdRow, storable_text
from adapters.postgres.database import ACTIVE_USERS, COUNTED_EXACTLY, MFA_ENABLED_USERS, count_or_estimate
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.statements import OnPool, OnTransaction, ask, first, only
from adapters.postgres.ties import shown_name
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.mfa import MfaEvent
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.platform.platform_users import (
    MOST_COUNTED,
    MOST_ORGANIZATIONS,
    AccountOverview,
    CredentialSeen,
    FoundUser,
    FoundUsers,
    IdentitySeen,
    LinkSeen,
    MfaMetrics,
    MfaOverview,
    OrganizationRole,
    PasskeySeen,
    SignInAttempt,
    UserMembership,
)


def _found(*, mfa_enabled: bool, organizations: list[dict[str, Any]], name: str | None, **account: Any) -> FoundUser:
    memberships = [UserMembership(OrganizationId(UUID(one.pop("id"))), **one) for one in organizations]
    return FoundUser(ACCOUNT.row(**account), mfa_enabled, memberships, name)


def _found_or_none(*, complete: bool, found: UUID | None, **columns: Any) -> tuple[bool, FoundUser | None]:
    """A row of a search. One that finds nobody is one row without an account."""
    return complete, None if found is None else _found(**columns)


def _mfa(*, user: UUID, email: str, language: str | None, **columns: Any) -> MfaOverview:
    return MfaOverview(user=UserId(user), email=Email(email), language=Language.of(language), **columns)


def _metrics(*, users_counted: int, users_estimated: float, mfa_counted: int, mfa_estimated: float, **counts: int) -> MfaMetrics:
    users, enabled = count_or_estimate(users_counted, users_estimated), count_or_estimate(mfa_counted, mfa_estimated)
    return MfaMetrics(users=users, mfa_enabled=enabled, **counts)


class PostgresUserDirectory(OnPool):
    """Implements `ports.platform.UserDirectory`."""

    async def search(self, part: str, user: UserId | None, limit: int) -> Sequence[FoundUser]:
        text = storable_text(part)
        parameters = {"part": text, "pattern": containing(text), "user": user, "limit": limit, "most": MOST_ORGANIZATIONS}
        statement = _OF_USER if user is not None else _OF_PART if part else _NEWEST
        return await ask(self._pool, _found, statement, parameters)

    async def find(self, text: str, limit: int, most_read: int) -> FoundUsers:
        parameters = {"part": storable_text(text), "limit": limit, "read": most_read, "most": MOST_ORGANIZATIONS}
        rows = await ask(self._pool, _found_or_none, _OF_NAME, parameters)
        return FoundUsers([one for _, one in rows if one is not None], complete=rows[0][0])

    async def owners(self, limit: int) -> Sequence[FoundUser]:
        return await ask(self._pool, _found, _OWNERS, {"limit": limit, "most": MOST_ORGANIZATIONS})

    async def mfa(self, user: UserId) -> MfaOverview | None:
        return first(await ask(self._pool, _mfa, _MFA, {"user": user, "attempt": MfaEvent.VERIFY_ATTEMPT}))

    async def mfa_metrics(self, since: datetime) -> MfaMetrics:
        parameters = {
            "since": since,
            "most": COUNTED_EXACTLY,
            "most_events": MOST_COUNTED,
            "used": MfaEvent.BACKUP_CODE_USED,
            "failed": MfaEvent.VERIFY_FAILED,
        }
        return only(await ask(self._pool, _metrics, _METRICS, parameters))


def containing(part: str) -> str:
    """A pattern for `like` that matches this text anywhere. Wildcards in the text are escaped."""
    escaped = part.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


# The search reads an index of addresses. For a text that many addresses contain, PostgreSQL finds enough of them near the start of the
# index. For a rare text, PostgreSQL reads the index to its end, but the index holds only addresses. An index of substrings would need an
# extension that not every PostgreSQL has. A whole address is what is asked for most, so it is looked up.
_ONE: Final[LiteralString] = f"""{ACCOUNT.names}, {shown_name("users")} as name,
         {second_factor_since("users.id")} is not null as mfa_enabled,
         array(
             select jsonb_build_object('id', organizations.id, 'slug', organizations.slug, 'name', organizations.name,
                                       'role', memberships.role)
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = users.id
              order by organizations.slug
              limit %(most)s
         ) as organizations"""


def _search(sought: LiteralString, condition: LiteralString) -> LiteralString:
    return f"""
    with sought as materialized ({sought})
  select {_ONE}
    from sought
   cross join lateral (select * from users where {condition} limit 1) as users
"""


_OF_USER: Final[LiteralString] = _search("select id from users where id = %(user)s and email_key like %(pattern)s", "users.id = sought.id")

_OF_PART: Final[LiteralString] = (
    _search(
        """
             select email_key from users where email_key = %(part)s
              union all
            (select email_key
               from (select email_key from users order by email_key offset 0) as addresses    -- PostgreSQL reads the index in order
              where email_key like %(pattern)s and not exists (select from users where email_key = %(part)s)
              limit %(limit)s)
         """,
        "users.email_key = sought.email_key",
    )
    + "   order by users.email_key"
)

# Names have no index. So the search reads the newest accounts, by the primary key: ids are in the order of time.
_OF_NAME: Final[LiteralString] = f"""
    with sought as materialized (
             select id, 0 as place from users where email_key = %(part)s
              union all
            (select id, 1
               from (
                        select id, email_key, username, name, given_name, family_name from users order by id desc limit %(read)s
                    ) as newest
              where email_key <> %(part)s
                and (strpos(email_key, %(part)s) > 0 or strpos(lower({shown_name("newest")}), %(part)s) > 0
                     or strpos(username, %(part)s) > 0)
              limit %(limit)s)
         )
  select not exists (select from users order by id desc offset %(read)s limit 1) as complete, sought.id as found, {_ONE}
    from (values (1)) as once
    left join sought on true
    left join users on users.id = sought.id
   order by sought.place, users.id desc
   limit %(limit)s
"""

_NEWEST: Final[LiteralString] = (
    _search("select id from users order by id desc limit %(limit)s", "users.id = sought.id") + "   order by users.id desc"
)

_OWNERS: Final[LiteralString] = (
    _search("select id from users where is_platform_owner order by id limit %(limit)s", "users.id = sought.id") + "   order by users.id"
)

_MFA: Final[LiteralString] = f"""
    select users.id as user, users.email, {second_factor_since("users.id")} as enabled_at,
           (select count(*) from backup_codes where backup_codes.user_id = users.id and used_at is null) as backup_codes,
           (
               select created_at
                 from mfa_events
                where mfa_events.user_id = users.id and name = %(attempt)s
                order by id desc
                limit 1
           ) as last_challenge,
           users.language, {shown_name("users")} as name
      from users
     where users.id = %(user)s
"""

_METRICS: Final[LiteralString] = f"""
    select active.counted as users_counted, active.estimated as users_estimated,
           enabled.counted as mfa_counted, enabled.estimated as mfa_estimated,
           (
               select count(*)
                 from (select from mfa_events where name = %(used)s and created_at > %(since)s limit %(most_events)s) as capped
           ) as backup_codes_used,
           (
               select count(*)
                 from (select from mfa_events where name = %(failed)s and created_at > %(since)s limit %(most_events)s) as capped
           ) as failures
      from ({ACTIVE_USERS}) as active
     cross join ({MFA_ENABLED_USERS}) as enabled
"""


class PlatformOwnerRows(OnTransaction):
    """Implements `ports.platform.PlatformOwnerStore` in one transaction."""

    async def exist(self) -> bool:
        return only(await self._transaction.ask(AnswerRow, _HAS_PLATFORM_OWNER)).yes

    async def exist_besides(self, user: UserId) -> bool:
        return only(await self._transaction.ask(AnswerRow, _HAS_OTHER_PLATFORM_OWNER, {"user": user})).yes

    async def promote(self, email: Email) -> UserId | None:
        promoted = await self._transaction.ask(IdRow, _PROMOTE, {"email_key": email.key})
        return UserId(promoted[0].id) if promoted else None

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _PUT_IN_OFFICE, {"user": user, "at": at}))

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _PUT_OUT_OF_OFFICE, {"user": user, "at": at}))

    async def hold(self) -> None:
        await self._transaction.hold(locks.PLATFORM_OWNERS)

    async def hold_first(self) -> None:
        await self._transaction.hold(locks.FIRST_OWNER)


# A deactivated owner counts: a restart must not replace an owner whom somebody has deactivated.
_HAS_PLATFORM_OWNER: Final = "select exists (select from users where is_platform_owner) as yes"

_HAS_OTHER_PLATFORM_OWNER: Final = """
    select exists (select from users where is_platform_owner and deactivated_at is null and id <> %(user)s) as yes
"""

_PROMOTE: Final[LiteralString] = f"""
    update users
       set is_platform_owner = true, updated_at = now()
     where email_key = %(email_key)s and deactivated_at is null and {is_proved()}
 returning id
"""

_PUT_IN_OFFICE: Final[LiteralString] = f"""
    update users
       set is_platform_owner = true, updated_at = %(at)s
     where id = %(user)s and not is_platform_owner and deactivated_at is null and {is_proved()}
 returning id
"""

_PUT_OUT_OF_OFFICE: Final = """
    update users set is_platform_owner = false, updated_at = %(at)s where id = %(user)s and is_platform_owner returning id
"""


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
    """Implements `ports.platform.AccountOverviews`.

    The overview reads the whole database. Operators ask for one user at a time, so the look-up may be slow.
    """

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
