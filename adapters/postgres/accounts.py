"""Accounts in PostgreSQL."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from adapters.postgres import locks
from adapters.postgres.transaction import Transaction
from core.domain.accounts import Account
from core.domain.email import Email
from core.domain.identifiers import UserId


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


@dataclass(frozen=True, slots=True)
class _Answer:
    yes: bool


class AccountRows:
    """Implements `ports.accounts.AccountStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, account: Account, password_hash: str | None) -> bool:
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
                "created_at": account.created_at,
            },
        )
        return bool(added)

    async def promote(self, email: Email) -> UserId | None:
        promoted = await self._transaction.ask(_Identity, _PROMOTE, {"email_key": email.key})
        return UserId(promoted[0].id) if promoted else None

    async def has_platform_owner(self) -> bool:
        (answer,) = await self._transaction.ask(_Answer, _HAS_PLATFORM_OWNER)
        return answer.yes

    async def hold_first_owner(self) -> None:
        await self._transaction.hold(locks.FIRST_OWNER)


# Two that add the same e-mail at once: the second waits for the first's commit and then adds nothing.
_ADD: Final = """
    insert into users (id, email, email_key, password_hash, is_platform_owner, email_verified_at, deactivated_at, created_at, updated_at)
    values (%(id)s, %(email)s, %(email_key)s, %(password_hash)s, %(is_platform_owner)s, %(email_verified_at)s, %(deactivated_at)s,
            %(created_at)s, %(created_at)s)
        on conflict (email_key) do nothing
 returning id
"""

_PROMOTE: Final = """
    update users
       set is_platform_owner = true, updated_at = now()
     where email_key = %(email_key)s and deactivated_at is null
 returning id
"""

# A deactivated one counts: whoever was put out of office is not replaced by a restart.
_HAS_PLATFORM_OWNER: Final = "select exists (select from users where is_platform_owner) as yes"
