"""Signing keys in PostgreSQL. Callers pass and receive the private keys sealed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres import locks
from adapters.postgres.database import BELIEVED
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import KeyId
from core.domain.json import Json
from core.domain.signing_keys import KeyPurpose, KeyState, SigningKey
from core.frozen import Frozen


class _Row(Frozen):
    id: str
    purpose: str
    state: str
    public_jwk: dict[str, Json]
    sealed_private_key: bytes
    created_at: datetime
    activated_at: datetime | None
    retires_at: datetime | None

    def key(self) -> SigningKey:
        return SigningKey(
            id=KeyId(self.id),
            purpose=KeyPurpose(self.purpose),
            state=KeyState(self.state),
            public_jwk=self.public_jwk,
            sealed_private_key=self.sealed_private_key,
            created_at=self.created_at,
            activated_at=self.activated_at,
            retires_at=self.retires_at,
        )


class _Identity(Frozen):
    id: str


class SigningKeyRows:
    """Implements `ports.signing_keys.SigningKeyStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def hold(self) -> None:
        await self._transaction.hold(locks.SIGNING_KEYS)

    async def all(self) -> Sequence[SigningKey]:
        return [row.key() for row in await self._transaction.ask(_Row, _ALL)]

    async def add(self, key: SigningKey) -> None:
        await self._transaction.tell(
            _ADD,
            {
                "id": key.id,
                "purpose": key.purpose.value,
                "state": key.state.value,
                "public_jwk": Jsonb(key.public_jwk),
                "sealed_private_key": key.sealed_private_key,
                "created_at": key.created_at,
                "activated_at": key.activated_at,
                "retires_at": key.retires_at,
            },
        )

    async def activate(self, key: KeyId, at: datetime) -> None:
        await self._transaction.tell(_ACTIVATE, {"id": key, "at": at})

    async def retire(self, key: KeyId, until: datetime) -> None:
        await self._transaction.tell(_RETIRE, {"id": key, "until": until})

    async def delete_retired(self, before: datetime) -> int:
        return len(await self._transaction.ask(_Identity, _DELETE_RETIRED, {"before": before}))


_ALL: Final = """
    select id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at, retires_at
      from signing_keys
     order by created_at, id
"""

_ADD: Final = """
    insert into signing_keys (id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at, retires_at)
    values (%(id)s, %(purpose)s, %(state)s, %(public_jwk)s, %(sealed_private_key)s, %(created_at)s, %(activated_at)s, %(retires_at)s)
"""

_ACTIVATE: Final = "update signing_keys set state = 'current', activated_at = %(at)s where id = %(id)s and state = 'next'"

_RETIRE: Final = "update signing_keys set state = 'outgoing', retires_at = %(until)s where id = %(id)s and state = 'current'"

# The keys of ID tokens are kept for longer than any session lasts, because applications send ID tokens back as `id_token_hint`.
NEEDED_UNTIL: Final[LiteralString] = "retires_at + case purpose when 'access' then interval '0' else interval '400 days' end"

_DELETE_RETIRED: Final[LiteralString] = f"""
    delete from signing_keys where state = 'outgoing' and {NEEDED_UNTIL} < %(before)s and {BELIEVED} returning id
"""
