"""The hashes of passwords in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.identity.accounts import ACCOUNT_AND_WHO_DEACTIVATED, OPENS_BY_PROOF, DeactivationRow
from adapters.postgres.identity.addresses import is_unproved, is_vouched
from adapters.postgres.rows import AnswerRow, IdRow
from adapters.postgres.transaction import Transaction
from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.accounts import AccountPassword, BeforeReset, Registration, Unverified
from core.domain.languages import Language
from core.frozen import Frozen


class _Password(Frozen):
    email: str
    password_hash: str | None
    language: str | None
    password_changed_at: datetime | None


class _BeforeReset(DeactivationRow):
    had_password: bool


class _Registration(Frozen):
    password_hash: str | None
    registered_in: bytes | None
    is_vouched: bool


class AccountPasswordRows:
    """Implements `ports.identity.account_passwords.AccountPasswordStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find(self, user: UserId) -> AccountPassword | None:
        rows = await self._transaction.ask(_Password, _FIND_HASH, {"user": user})
        if not rows:
            return None
        (row,) = rows
        return AccountPassword(Email(row.email), row.password_hash, row.password_changed_at, Language.of(row.language))

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _REPLACE_HASH, {"user": user, "old": old, "new": new, "at": at}))

    async def reset(self, user: UserId, email: Email, new: str, at: datetime) -> BeforeReset | None:
        parameters = {"user": user, "email_key": email.key, "new": new, "at": at}
        rows = await self._transaction.ask(_BeforeReset, _RESET_HASH, parameters)
        return BeforeReset(rows[0].account(), rows[0].had_password) if rows else None

    async def registration(self, user: UserId) -> Registration | None:
        rows = await self._transaction.ask(_Registration, _FIND_REGISTRATION, {"user": user})
        return Registration(rows[0].password_hash, rows[0].registered_in, rows[0].is_vouched) if rows else None

    async def forget_unverified(self, user: UserId, at: datetime) -> Unverified | None:
        rows = await self._transaction.ask(AnswerRow, _FORGET_UNVERIFIED_HASH, {"user": user, "at": at})
        return Unverified(is_vouched=rows[0].yes) if rows else None

    async def forget(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_FORGET_HASH, {"user": user, "at": at})


_FIND_HASH: Final = """
    select email, password_hash, password_changed_at, language
      from users
     where id = %(user)s and deactivated_at is null
"""

_FIND_REGISTRATION: Final[LiteralString] = f"""
    select password_hash, registered_in, {is_vouched()} as is_vouched from users where id = %(user)s and {is_unproved()}
"""

_REPLACE_HASH: Final = """
    update users
       set password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and password_hash is not distinct from %(old)s::text
 returning id
"""

# A stranger may have registered the account, with a password, before the address was proved. So the service where that happened is no
# longer its origin. Who made an account for somebody else stays its maker, however often the password is reset, until the account is
# deactivated: whoever then asks for a link opens it, and it is nobody's.
_RESET_HASH: Final[LiteralString] = f"""
    with before as (
             select {ACCOUNT_AND_WHO_DEACTIVATED}, users.password_hash
               from users
              where id = %(user)s and (deactivated_at is null or {OPENS_BY_PROOF}) and email_key = %(email_key)s
                for no key update
         )
  update users
     set origin_service_id = case
                                  when before.deactivated_at is not null then null
                                  when users.origin_org_id is null and {is_unproved("before")}
                                   and before.password_hash is not null then null
                                  else origin_service_id
                              end,
         origin_org_id = case when before.deactivated_at is null then origin_org_id end,
         deactivated_at = null, deactivated_by_org_id = null,
         password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s,
         email_verified_at = coalesce(before.email_verified_at, %(at)s), registered_in = null
    from before
   where users.id = before.id
returning {ACCOUNT_AND_WHO_DEACTIVATED.replace("users.", "before.")}, before.password_hash is not null as had_password
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
