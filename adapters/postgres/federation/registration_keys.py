"""The keys that sign open registrations, among the server secrets. A process reads them at their first use, and every half minute while
they are in use. Nobody can cause a query more: an id that no key has signed is refused with what is known.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog
import trio

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from adapters.postgres.transaction import OnTransaction
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.open_registrations import RegistrationKey
from core.domain.secrets import sealing_context
from core.frozen import Frozen
from ports.crypto import KeyRing, ServerSecrets

log = structlog.get_logger()

FIRST: Final = "open_registrations"
# In seconds.
_RENEW_AFTER: Final = 30.0


class _Row(Frozen):
    purpose: str
    sealed_secret: bytes
    created_at: datetime


class PostgresRegistrationKeys:
    """Implements `ports.federation.oauth.KnownRegistrationKeys`."""

    def __init__(
        self, pool: Pool, keyring: KeyRing, server_secrets: ServerSecrets, monotonic: Callable[[], float] = trio.current_time
    ) -> None:
        self._pool = pool
        self._keyring = keyring
        self._server_secrets = server_secrets
        self._monotonic = monotonic
        self._known: Sequence[RegistrationKey] = ()
        self._renew_at = float("-inf")

    async def all(self) -> Sequence[RegistrationKey]:
        if self._known and self._monotonic() < self._renew_at:
            return self._known
        # Others go on with what is known while this one reads.
        self._renew_at = self._monotonic() + _RENEW_AFTER
        try:
            found = await self.find()
            if not found:
                await self._server_secrets.get(FIRST)
                found = await self.find()
        except (Unavailable, Overloaded) as error:
            if not self._known:
                raise
            log.warning("registration_keys_not_renewed", error=type(error).__name__)
            return self._known
        self._known = found
        return found

    async def find(self) -> Sequence[RegistrationKey]:
        rows = await ask(self._pool, _Row, _ALL, {"first": FIRST})
        return [
            RegistrationKey(row.purpose, self._keyring.open(row.sealed_secret, sealing_context(row.purpose)), row.created_at)
            for row in rows
        ]


class RegistrationKeyRows(OnTransaction):
    """Implements `ports.federation.oauth.RegistrationKeyStore`."""

    async def add(self, key: str, sealed_secret: bytes, at: datetime) -> None:
        await self._transaction.tell(_ADD, {"key": key, "sealed": sealed_secret, "at": at})

    async def delete(self, keys: Sequence[str]) -> None:
        await self._transaction.tell(_DELETE, {"keys": list(keys)})


_ALL: Final = """
    select purpose, sealed_secret, created_at
      from server_secrets
     where purpose = %(first)s or starts_with(purpose, %(first)s || '/')
     order by created_at, purpose
"""

_ADD: Final = "insert into server_secrets (purpose, sealed_secret, created_at) values (%(key)s, %(sealed)s, %(at)s)"

_DELETE: Final = "delete from server_secrets where purpose = any (%(keys)s::text[])"
