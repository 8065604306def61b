"""Server secrets and signing keys of the installation in PostgreSQL."""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres import locks
from adapters.postgres.columns import Columns
from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import OnTransaction, ask, first_made, tell
from core.domain.identifiers import KeyId
from core.domain.secrets import sealing_context
from core.domain.tokens import SigningKey
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.system import Clock

_BYTES: Final = 32


class _Row(Frozen):
    sealed_secret: bytes


class PostgresServerSecrets:
    """Implements `ports.crypto.ServerSecrets`.

    The first use of a secret creates it, and the key ring seals it. After the first read, a process keeps the secret in memory.
    """

    def __init__(self, pool: Pool, keyring: KeyRing, clock: Clock) -> None:
        self._pool = pool
        self._keyring = keyring
        self._clock = clock
        self._known: dict[str, bytes] = {}

    async def get(self, purpose: str) -> bytes:
        # A secret never changes, so a process reads it only once.
        known = self._known.get(purpose)
        if known is None:
            known = self._known[purpose] = await self._load(purpose)
        return known

    async def find(self, purpose: str) -> bytes | None:
        known = self._known.get(purpose)
        if known is None:
            return first_made(
                await ask(self._pool, _Row, _FIND, {"purpose": purpose}),
                lambda row: self._keyring.open(row.sealed_secret, sealing_context(purpose)),
            )
        return known

    async def _load(self, purpose: str) -> bytes:
        context = sealing_context(purpose)
        rows = await ask(self._pool, _Row, _FIND, {"purpose": purpose})
        if not rows:
            sealed = self._keyring.seal(os.urandom(_BYTES), context)
            await tell(self._pool, _ADD, {"purpose": purpose, "sealed": sealed, "at": self._clock.now()})
            # When two processes create a secret at the same time, both read the one that was written first.
            rows = await ask(self._pool, _Row, _FIND, {"purpose": purpose})
        return self._keyring.open(rows[0].sealed_secret, context)


_FIND: Final = "select sealed_secret from server_secrets where purpose = %(purpose)s"

_ADD: Final = """
    insert into server_secrets (purpose, sealed_secret, created_at)
    values (%(purpose)s, %(sealed)s, %(at)s)
        on conflict (purpose) do nothing
"""


SIGNING_KEY: Final = Columns(SigningKey, "signing_keys")


class SigningKeyRows(OnTransaction):
    """Implements `ports.crypto.SigningKeyStore` in one transaction.

    Callers pass and receive the private keys sealed.
    """

    async def hold(self) -> None:
        await self._transaction.hold(locks.SIGNING_KEYS)

    async def all(self) -> Sequence[SigningKey]:
        return await self._transaction.ask(SIGNING_KEY.row, _ALL)

    async def add(self, key: SigningKey) -> None:
        await self._transaction.tell(_SIGNING_KEY_ADD, SIGNING_KEY.values(key))

    async def activate(self, key: KeyId, at: datetime) -> None:
        await self._transaction.tell(_ACTIVATE, {"id": key, "at": at})

    async def retire(self, key: KeyId, until: datetime) -> None:
        await self._transaction.tell(_RETIRE, {"id": key, "until": until})

    async def delete_retired(self, before: datetime) -> int:
        return len(await self._transaction.ask_in_order(str, _DELETE_RETIRED, {"before": before}))


_ALL: Final[LiteralString] = f"select {SIGNING_KEY.names} from signing_keys order by created_at, id"

_SIGNING_KEY_ADD: Final[LiteralString] = f"insert into signing_keys ({SIGNING_KEY.into()}) values ({SIGNING_KEY.inserted()})"

_ACTIVATE: Final = "update signing_keys set state = 'current', activated_at = %(at)s where id = %(id)s and state = 'next'"

_RETIRE: Final = "update signing_keys set state = 'outgoing', retires_at = %(until)s where id = %(id)s and state = 'current'"

# The keys of ID tokens are kept for longer than any session lasts, because applications send ID tokens back as `id_token_hint`.
NEEDED_UNTIL: Final[LiteralString] = "retires_at + case purpose when 'access' then interval '0' else interval '400 days' end"

_DELETE_RETIRED: Final[LiteralString] = f"""
    delete from signing_keys where state = 'outgoing' and {NEEDED_UNTIL} < %(before)s and {BELIEVED} returning id
"""
