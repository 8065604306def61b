"""Locks of accounts in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.privacy.holding import IS_THE_MAKERS
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import first
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.account_locks import BeforeLock
from core.domain.identity.upstream.claims import AddedKind, AddedWay

_NOTHING: Final = BeforeLock(has_password=False, consents=0, devices=0)


def _added(kind: str, id: UUID, name: str, at: datetime) -> AddedWay:  # noqa: A002 - the column's name
    return AddedWay(AddedKind(kind), id, name, at)


class AccountLockRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountLockStore` in one transaction."""

    async def before(self, user: UserId, at: datetime) -> BeforeLock:
        return first(await self._transaction.ask(BeforeLock, _BEFORE, {"user": user, "at": at})) or _NOTHING

    async def lock(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_LOCK, {"user": user, "at": at})

    async def added_since(self, user: UserId, since: datetime) -> Sequence[AddedWay]:
        return await self._transaction.ask(_added, _ADDED_SINCE, {"user": user, "since": since})

    async def is_the_makers(self, user: UserId, organization: OrganizationId) -> bool:
        rows = await self._transaction.ask(AnswerRow, _IS_THE_MAKERS, {"user": user, "organization": organization})
        return bool(rows) and rows[0].yes


_BEFORE: Final = """
    select password_hash is not null as has_password,
           (select count(*) from consents where consents.user_id = users.id) as consents,
           (
               select count(*)
                 from devices
                where devices.user_id = users.id and devices.revoked_at is null and devices.trusted_until > %(at)s
           ) as devices
      from users
     where id = %(user)s
"""

# Equal moments say that it is a lock, and no deactivation: see `Account.is_locked`.
_LOCK: Final = """
    update users
       set deactivated_at = %(at)s, locked_at = %(at)s, password_hash = null, password_changed_at = %(at)s, pending_email = null,
           pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
"""

_ADDED_SINCE: Final = """
    select 'second_factor' as kind, user_id as id, '' as name, enabled_at as at
      from mfa_secrets
     where user_id = %(user)s and enabled_at > %(since)s
     union all
    select 'passkey', id, name, created_at
      from passkeys
     where user_id = %(user)s and created_at > %(since)s
     union all
    select 'identity', identities.id, coalesce(providers.name, identities.provider), identities.linked_at
      from identities
      left join upstream_providers as providers on providers.id = identities.upstream_provider_id
     where identities.user_id = %(user)s and identities.linked_at > %(since)s
     order by at, kind, id
"""

_IS_THE_MAKERS: Final[LiteralString] = f"select coalesce({IS_THE_MAKERS}, false) as yes from users where users.id = %(user)s"
