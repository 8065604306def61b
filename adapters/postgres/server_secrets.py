"""Server secrets in PostgreSQL. The first use of a secret creates it, and the key ring seals it. After the first read, a process keeps the
secret in memory.
"""

import os
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, first_made, tell
from core.domain.secrets import sealing_context
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.system import Clock

_BYTES: Final = 32


class _Row(Frozen):
    sealed_secret: bytes


class PostgresServerSecrets:
    """Implements `ports.crypto.ServerSecrets`."""

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
