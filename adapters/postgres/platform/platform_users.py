"""Users as platform owners see them, from PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.database import ACTIVE_USERS, COUNTED_EXACTLY, MFA_ENABLED_USERS, count_or_estimate
from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.factors.mfa import second_factor_since
from adapters.postgres.statements import ask, first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import shown_name
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.mfa import MfaEvent
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.platform.platform_users import (
    MOST_COUNTED,
    MOST_ORGANIZATIONS,
    FoundUser,
    FoundUsers,
    MfaMetrics,
    MfaOverview,
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
