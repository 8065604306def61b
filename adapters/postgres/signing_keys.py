"""Signing keys in PostgreSQL. Callers pass and receive the private keys sealed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres import locks
from adapters.postgres.columns import Columns
from adapters.postgres.database import BELIEVED
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import KeyId
from core.domain.tokens import SigningKey

SIGNING_KEY: Final = Columns(SigningKey, "signing_keys")


class SigningKeyRows(OnTransaction):
    """Implements `ports.crypto.SigningKeyStore` in one transaction."""

    async def hold(self) -> None:
        await self._transaction.hold(locks.SIGNING_KEYS)

    async def all(self) -> Sequence[SigningKey]:
        return await self._transaction.ask(SIGNING_KEY.row, _ALL)

    async def add(self, key: SigningKey) -> None:
        await self._transaction.tell(_ADD, SIGNING_KEY.values(key))

    async def activate(self, key: KeyId, at: datetime) -> None:
        await self._transaction.tell(_ACTIVATE, {"id": key, "at": at})

    async def retire(self, key: KeyId, until: datetime) -> None:
        await self._transaction.tell(_RETIRE, {"id": key, "until": until})

    async def delete_retired(self, before: datetime) -> int:
        return len(await self._transaction.ask_in_order(str, _DELETE_RETIRED, {"before": before}))


_ALL: Final[LiteralString] = f"select {SIGNING_KEY.names} from signing_keys order by created_at, id"

_ADD: Final[LiteralString] = f"insert into signing_keys ({SIGNING_KEY.into()}) values ({SIGNING_KEY.inserted()})"

_ACTIVATE: Final = "update signing_keys set state = 'current', activated_at = %(at)s where id = %(id)s and state = 'next'"

_RETIRE: Final = "update signing_keys set state = 'outgoing', retires_at = %(until)s where id = %(id)s and state = 'current'"

# The keys of ID tokens are kept for longer than any session lasts, because applications send ID tokens back as `id_token_hint`.
NEEDED_UNTIL: Final[LiteralString] = "retires_at + case purpose when 'access' then interval '0' else interval '400 days' end"

_DELETE_RETIRED: Final[LiteralString] = f"""
    delete from signing_keys where state = 'outgoing' and {NEEDED_UNTIL} < %(before)s and {BELIEVED} returning id
"""
