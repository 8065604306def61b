"""Accounts in PostgreSQL."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.errors import UniqueViolation

from adapters.postgres import locks
from adapters.postgres.transaction import Transaction
from core.domain.accounts import Account, AccountPassword
from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import ServiceId, UserId


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


@dataclass(frozen=True, slots=True)
class _Answer:
    yes: bool


@dataclass(frozen=True, slots=True)
class _Address:
    email: str


@dataclass(frozen=True, slots=True)
class _Password:
    email: str
    password_hash: str | None


@dataclass(frozen=True, slots=True)
class AccountRow:
    """The columns that make an account. Signing in reads them too."""

    id: UUID
    email: str
    is_platform_owner: bool
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime

    def account(self) -> Account:
        return Account(
            UserId(self.id), Email(self.email), self.is_platform_owner, self.email_verified_at, self.deactivated_at, self.created_at
        )


class AccountRows:
    """Implements `ports.accounts.AccountStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, account: Account, password_hash: str | None, origin: ServiceId | None = None) -> bool:
        added = await self._transaction.ask(
            _Identity,
            _ADD,
            {
                "id": account.id,
                "email": account.email.address,
                "email_key": account.email.key,
                "password_hash": password_hash,
                "is_platform_owner": account.is_platform_owner,
                "email_verified_at": account.email_verified_at,
                "deactivated_at": account.deactivated_at,
                "origin": origin,
                "created_at": account.created_at,
            },
        )
        return bool(added)

    async def find(self, email: Email) -> Account | None:
        rows = await self._transaction.ask(AccountRow, _FIND, {"email_key": email.key})
        return rows[0].account() if rows else None

    async def hold(self, user: UserId) -> None:
        # Nobody reads its answer: it rides with the next question.
        await self._transaction.tell(_HOLD, {"user": user})

    async def password(self, user: UserId) -> AccountPassword | None:
        rows = await self._transaction.ask(_Password, _FIND_HASH, {"user": user})
        return AccountPassword(Email(rows[0].email), rows[0].password_hash) if rows else None

    async def replace_password(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _REPLACE_HASH, {"user": user, "old": old, "new": new, "at": at}))

    async def reset_password(self, user: UserId, email: Email, new: str, at: datetime) -> bool:
        parameters = {"user": user, "email_key": email.key, "new": new, "at": at}
        return bool(await self._transaction.ask(_Identity, _RESET_HASH, parameters))

    async def forget_unverified_password(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _FORGET_UNVERIFIED_HASH, {"user": user, "at": at}))

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _VERIFY_EMAIL, {"user": user, "email_key": email.key, "at": at}))

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        (answer,) = await self._transaction.ask(_Answer, _EMAIL_IS_TAKEN, {"email_key": email.key, "user": user})
        return answer.yes

    async def await_email(self, user: UserId, email: Email | None, at: datetime) -> Email | None:
        parameters = {"user": user, "email": email and email.address, "email_key": email and email.key, "at": at}
        rows = await self._transaction.ask(_Address, _AWAIT_EMAIL, parameters)
        return Email(rows[0].email) if rows else None

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Email | None:
        try:
            rows = await self._transaction.ask(_Address, _CHANGE_EMAIL, {"user": user, "email": email.address, "at": at})
        except UniqueViolation:
            raise BadRequest("This e-mail address cannot be used") from None
        return Email(rows[0].email) if rows else None

    async def promote(self, email: Email) -> UserId | None:
        promoted = await self._transaction.ask(_Identity, _PROMOTE, {"email_key": email.key})
        return UserId(promoted[0].id) if promoted else None

    async def has_platform_owner(self) -> bool:
        (answer,) = await self._transaction.ask(_Answer, _HAS_PLATFORM_OWNER)
        return answer.yes

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        rows = await self._transaction.ask(AccountRow, _FIND_ALL, {"users": list(users)})
        return {account.id: account for account in (row.account() for row in rows)}

    async def put_in_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _PUT_IN_OFFICE, {"user": user, "at": at}))

    async def put_out_of_office(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _PUT_OUT_OF_OFFICE, {"user": user, "at": at}))

    async def hold_first_owner(self) -> None:
        await self._transaction.hold(locks.FIRST_OWNER)

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _DEACTIVATE, {"user": user, "at": at}))

    async def activate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _ACTIVATE, {"user": user, "at": at}))

    async def forget_password(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(_Identity, _FORGET_HASH, {"user": user, "at": at}))

    async def has_other_platform_owner(self, user: UserId) -> bool:
        (answer,) = await self._transaction.ask(_Answer, _HAS_OTHER_PLATFORM_OWNER, {"user": user})
        return answer.yes

    async def hold_platform_owners(self) -> None:
        await self._transaction.hold(locks.PLATFORM_OWNERS)


# Two that add the same e-mail at once: the second waits for the first's commit and then adds nothing. A service that is deleted at this
# moment was the origin of nothing.
_ADD: Final = """
    insert into users (id, email, email_key, password_hash, is_platform_owner, email_verified_at, deactivated_at, origin_service_id,
                       created_at, updated_at)
    values (%(id)s, %(email)s, %(email_key)s, %(password_hash)s, %(is_platform_owner)s, %(email_verified_at)s, %(deactivated_at)s,
            (select services.id from services where services.id = %(origin)s for key share), %(created_at)s, %(created_at)s)
        on conflict (email_key) do nothing
 returning id
"""

_FIND: Final = """
    select id, email, is_platform_owner, email_verified_at, deactivated_at, created_at
      from users
     where email_key = %(email_key)s
"""

_FIND_ALL: Final = """
    select id, email, is_platform_owner, email_verified_at, deactivated_at, created_at
      from users
     where id = any(%(users)s)
"""

# The weakest lock that two changes contend for: rows that refer to the account can be added meanwhile.
_HOLD: Final = "select id from users where id = %(user)s for no key update"

_FIND_HASH: Final = "select email, password_hash from users where id = %(user)s and deactivated_at is null"

_REPLACE_HASH: Final = """
    update users
       set password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and password_hash is not distinct from %(old)s::text
 returning id
"""

# Who chose the password before anybody had proved the address need not be who proves it now: the service they came through loses its hold.
_RESET_HASH: Final = """
    update users
       set origin_service_id = case when email_verified_at is null and password_hash is not null then null else origin_service_id end,
           password_hash = %(new)s, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s,
           email_verified_at = coalesce(email_verified_at, %(at)s)
     where id = %(user)s and deactivated_at is null and email_key = %(email_key)s
 returning id
"""

_FORGET_UNVERIFIED_HASH: Final = """
    update users
       set password_hash = null, origin_service_id = null, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and email_verified_at is null
 returning id
"""

_VERIFY_EMAIL: Final = """
    update users
       set email_verified_at = coalesce(email_verified_at, %(at)s), updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and email_key = %(email_key)s
 returning id
"""

_EMAIL_IS_TAKEN: Final = "select exists (select from users where email_key = %(email_key)s and id <> %(user)s) as yes"

_AWAIT_EMAIL: Final = """
    update users
       set pending_email = %(email)s, pending_email_key = %(email_key)s, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
 returning email
"""

_CHANGE_EMAIL: Final = """
    with before as (
             select id, email
               from users
              where id = %(user)s and deactivated_at is null and pending_email = %(email)s
                for no key update
         )
  update users
     set email = pending_email, email_key = pending_email_key, pending_email = null, pending_email_key = null,
         email_verified_at = %(at)s, updated_at = %(at)s
    from before
   where users.id = before.id
returning before.email
"""

_PROMOTE: Final = """
    update users
       set is_platform_owner = true, updated_at = now()
     where email_key = %(email_key)s and deactivated_at is null and email_verified_at is not null
 returning id
"""

_PUT_IN_OFFICE: Final = """
    update users
       set is_platform_owner = true, updated_at = %(at)s
     where id = %(user)s and not is_platform_owner and deactivated_at is null and email_verified_at is not null
 returning id
"""

_PUT_OUT_OF_OFFICE: Final = """
    update users set is_platform_owner = false, updated_at = %(at)s where id = %(user)s and is_platform_owner returning id
"""

# A deactivated one counts: whoever was put out of office is not replaced by a restart.
_HAS_PLATFORM_OWNER: Final = "select exists (select from users where is_platform_owner) as yes"

_DEACTIVATE: Final = """
    update users
       set deactivated_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
 returning id
"""

_ACTIVATE: Final = """
    update users
       set deactivated_at = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is not null
 returning id
"""

_FORGET_HASH: Final = """
    update users
       set password_hash = null, password_changed_at = %(at)s, pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
 returning id
"""

_HAS_OTHER_PLATFORM_OWNER: Final = """
    select exists (select from users where is_platform_owner and deactivated_at is null and id <> %(user)s) as yes
"""
