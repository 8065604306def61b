"""Signing in, in PostgreSQL: one statement that brings all that a password check needs to know, and the last look before the session."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.accounts import AccountRow
from adapters.postgres.devices import KNOWLEDGE, knowledge_of, knowledge_parameters
from adapters.postgres.pool import Pool
from adapters.postgres.rate_limits import TAKE_WANTED, give_back
from adapters.postgres.statements import ask
from adapters.postgres.transaction import Transaction
from core.domain.accounts import Account
from core.domain.devices import Approach
from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.sign_in import TRIES_FROM_ANYWHERE, TRIES_FROM_DEVICE, Alone, Applicant, Application, Tries, account_key


@dataclass(frozen=True, slots=True)
class _Application:
    limit_name: str
    key: str
    wait: float
    id: UUID | None
    email: str | None
    password_hash: str | None
    is_platform_owner: bool | None
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime | None
    mfa_enabled: bool
    knowledge: dict[str, Any]

    def application(self) -> Application:
        limit = TRIES_FROM_DEVICE if self.limit_name == TRIES_FROM_DEVICE.name else TRIES_FROM_ANYWHERE
        return Application(Tries(limit, self.key, self.wait), self._applicant())

    def _applicant(self) -> Applicant | None:
        if self.id is None or self.email is None or self.created_at is None:
            return None
        account = Account(
            UserId(self.id),
            Email(self.email),
            is_platform_owner=self.is_platform_owner or False,
            email_verified_at=self.email_verified_at,
            deactivated_at=self.deactivated_at,
            created_at=self.created_at,
        )
        return Applicant(account, self.password_hash, self.mfa_enabled, knowledge_of(self.knowledge))


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


def _alone(alone: Alone | None) -> Mapping[str, Any]:
    return {"alone": alone is not None, "device": None if alone is None else alone.device}


class PostgresApplications:
    """Implements `ports.sign_in.Applications`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, email: Email, approach: Approach) -> Application:
        (row,) = await ask(
            self._pool,
            _Application,
            _FIND,
            {
                "email_key": email.key,
                "account_key": account_key(email),
                "account_limit": TRIES_FROM_ANYWHERE.name,
                "account_burst": float(TRIES_FROM_ANYWHERE.burst),
                "account_pace": TRIES_FROM_ANYWHERE.seconds_per_request,
                "device_limit": TRIES_FROM_DEVICE.name,
                "device_burst": float(TRIES_FROM_DEVICE.burst),
                "device_pace": TRIES_FROM_DEVICE.seconds_per_request,
                **knowledge_parameters(approach),
            },
        )
        return row.application()


class SignInRows:
    """Implements `ports.sign_in.SignInStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def confirm(self, user: UserId, encoded: str, alone: Alone | None = None) -> bool:
        return bool(await self._transaction.ask(_Identity, _CONFIRM, {"user": user, "encoded": encoded, **_alone(alone)}))

    async def renew(self, user: UserId, encoded: str, renewed: str, alone: Alone | None = None) -> bool:
        parameters = {"user": user, "encoded": encoded, "renewed": renewed, **_alone(alone)}
        return bool(await self._transaction.ask(_Identity, _RENEW, parameters))

    async def confirm_since(self, user: UserId, since: datetime) -> Account | None:
        rows = await self._transaction.ask(AccountRow, _CONFIRM_SINCE, {"user": user, "since": since})
        return rows[0].account() if rows else None

    async def give_back(self, tries: Tries) -> None:
        await give_back(self._transaction, tries.limit, tries.key)


# A try from a device that shows one of this account's device tokens draws from that device's bucket, any other from the account's. For an
# address that nobody has, everything is looked for all the same, and nothing found.
_FIND: Final[LiteralString] = f"""
    with known as (
             select devices.id
               from devices
               join users on users.id = devices.user_id
              where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s
         ),
         wanted as (
             select case when known.id is null then %(account_limit)s::text else %(device_limit)s::text end as limit_name,
                    coalesce(known.id::text, %(account_key)s::text) as key,
                    case when known.id is null then %(account_burst)s::float8 else %(device_burst)s::float8 end as burst,
                    case when known.id is null then %(account_pace)s::float8 else %(device_pace)s::float8 end as pace
               from (values (true)) as this (try)
               left join known on this.try
         ),
         taken as ({TAKE_WANTED})
  select taken.limit_name, taken.key, taken.wait, users.id, users.email, users.password_hash, users.is_platform_owner,
         users.email_verified_at, users.deactivated_at, users.created_at,
         exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null) as mfa_enabled,
         {KNOWLEDGE} as knowledge
    from taken
    left join users on users.email_key = %(email_key)s
"""

# The lock keeps a reset or a deactivation, which ends all sessions, from slipping in before the new session is there to be ended with them.
# While the password was checked, a second factor may have been enabled, or the device revoked that was trusted to do without.
_ENOUGH: Final = """
           (
               not %(alone)s
            or not exists (select from mfa_secrets where mfa_secrets.user_id = users.id and mfa_secrets.enabled_at is not null)
            or exists (
                   select from devices
                    where devices.id = %(device)s and devices.user_id = users.id and devices.revoked_at is null
                      and devices.trusted_until > now()
                      for no key update
               )
           )
"""

_CONFIRM: Final[LiteralString] = f"""
    select id from users where id = %(user)s and deactivated_at is null and password_hash = %(encoded)s and {_ENOUGH} for share of users
"""

_RENEW: Final[LiteralString] = f"""
    update users
       set password_hash = %(renewed)s
     where id = %(user)s and deactivated_at is null and password_hash = %(encoded)s and {_ENOUGH}
 returning id
"""

_CONFIRM_SINCE: Final = """
    select id, email, is_platform_owner, email_verified_at, deactivated_at, created_at
      from users
     where id = %(user)s and deactivated_at is null and (password_changed_at is null or password_changed_at <= %(since)s)
       for share
"""
