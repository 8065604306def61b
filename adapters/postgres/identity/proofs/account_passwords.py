"""The hashes of passwords in PostgreSQL."""

from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.accounts import ACCOUNT, ACCOUNT_AND_LOCK, OPENS_BY_PROOF, is_locked
from adapters.postgres.identity.addresses import is_unproved, is_vouched
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.statements import ask, first, first_made
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import UserId
from core.domain.identity.accounts import AccountPassword, BeforeReset, Registration, Unverified
from core.domain.identity.passwords import STRANGER, PasswordStanding
from core.domain.languages import Language
from core.domain.mail import Email
from core.frozen import Frozen


def _password(*, email: str, language: str | None, **columns: Any) -> AccountPassword:
    return AccountPassword(email=Email(email), language=Language.of(language), **columns)


def _before(*, had_password: bool, **account: Any) -> BeforeReset:
    return BeforeReset(ACCOUNT.row(**account), had_password)


class _Standing(Frozen):
    shortest: int | None
    names: list[str]

    def standing(self) -> PasswordStanding:
        return PasswordStanding(self.shortest, tuple(self.names))


class PostgresPasswordStandings:
    """Implements `ports.identity.accounts.PasswordStandings`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, user: UserId) -> PasswordStanding:
        return first_made(await ask(self._pool, _Standing, _FIND_STANDING, {"user": user}), _Standing.standing) or STRANGER


class AccountPasswordRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountPasswordStore` in one transaction."""

    async def find(self, user: UserId) -> AccountPassword | None:
        return first(await self._transaction.ask(_password, _FIND_HASH, {"user": user}))

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _REPLACE_HASH, {"user": user, "old": old, "new": new, "at": at}))

    async def reset(self, user: UserId, email: Email, new: str, at: datetime) -> BeforeReset | None:
        parameters = {"user": user, "email_key": email.key, "new": new, "at": at}
        return first(await self._transaction.ask(_before, _RESET_HASH, parameters))

    async def registration(self, user: UserId) -> Registration | None:
        return first(await self._transaction.ask(Registration, _FIND_REGISTRATION, {"user": user}))

    async def forget_unverified(self, user: UserId, at: datetime) -> Unverified | None:
        return first_made(
            await self._transaction.ask(AnswerRow, _FORGET_UNVERIFIED_HASH, {"user": user, "at": at}),
            lambda row: Unverified(is_vouched=row.yes),
        )

    async def forget(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_FORGET_HASH, {"user": user, "at": at})


_FIND_HASH: Final = """
    select email, password_hash as encoded, password_changed_at as changed_at, language
      from users
     where id = %(user)s and deactivated_at is null
"""

# Active organizations alone, as elsewhere: who is suspended asks for nothing outside itself.
_FIND_STANDING: Final[LiteralString] = f"""
    with own as (
             select organizations.name, organizations.shortest_password
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
         )
  select (select max(shortest_password) from own)::int as shortest,
         array_remove(array[users.name, users.given_name, users.family_name, users.username], null)
         || array(select name from own order by name limit 20)
         || array(
                select services.name
                  from service_users
                  join services on services.id = service_users.service_id
                 where service_users.user_id = %(user)s and service_users.own_since is not null
                 order by service_users.last_login_at desc nulls last
                 limit 20
            ) as names
    from users
   where users.id = %(user)s
"""

_FIND_REGISTRATION: Final[LiteralString] = f"""
    select password_hash as encoded, registered_in as browser, {is_vouched()} as is_vouched
      from users
     where id = %(user)s and {is_unproved()}
"""

_REPLACE_HASH: Final = """
    update users
       set password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and password_hash is not distinct from %(old)s::text
 returning id
"""

_WAS_LOCKED: Final[LiteralString] = f"({is_locked('before')}) is true"

# A stranger may have registered the account, with a password, before the address was proved. So the service where that happened is no
# longer its origin. Who made an account for somebody else stays its maker, however often the password is reset, until the account is
# deactivated: whoever then asks for a link opens it, and it is nobody's. A lock says nothing about whose account it is.
_RESET_HASH: Final[LiteralString] = f"""
    with before as (
             select {ACCOUNT_AND_LOCK}, users.password_hash
               from users
              where id = %(user)s and (deactivated_at is null or {OPENS_BY_PROOF} or {is_locked()}) and email_key = %(email_key)s
                for no key update
         )
  update users
     set origin_service_id = case
                                  when before.deactivated_at is not null and not {_WAS_LOCKED} then null
                                  when users.origin_org_id is null and {is_unproved("before")}
                                   and before.password_hash is not null then null
                                  else origin_service_id
                              end,
         origin_org_id = case when before.deactivated_at is null or {_WAS_LOCKED} then origin_org_id end,
         deactivated_at = null, deactivated_by_org_id = null,
         password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s,
         email_verified_at = coalesce(before.email_verified_at, %(at)s), registered_in = null
    from before
   where users.id = before.id
returning {ACCOUNT.names_in("before")}, before.deactivated_by, before.locked_at, before.lock_waits,
          before.password_hash is not null as had_password
"""

_FORGET_UNVERIFIED_HASH: Final[LiteralString] = f"""
    update users
       set password_hash = null, registered_in = null, language = null, pending_email = null, pending_email_key = null,
           origin_service_id = case when origin_org_id is not null then origin_service_id end, updated_at = %(at)s
     where id = %(user)s and {is_unproved()}
 returning {is_vouched()} as yes
"""

_FORGET_HASH: Final = """
    update users
       set password_hash = null, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s
"""
