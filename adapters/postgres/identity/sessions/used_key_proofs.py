"""Proofs of keys that were used, in PostgreSQL. The key of the table lets each count once, whichever process it reaches."""

from typing import Final

from adapters.postgres.statements import tell
from adapters.postgres.transaction import OnPool
from core.domain.key_proofs import UsedKeyProof


class PostgresUsedKeyProofs(OnPool):
    """Implements `ports.crypto.UsedKeyProofs`."""

    async def use(self, proof: UsedKeyProof) -> bool:
        return await tell(self._pool, _USE, {"digest": proof.digest, "expires_at": proof.expires_at}) == 1


_USE: Final = "insert into used_key_proofs (digest, expires_at) values (%(digest)s, %(expires_at)s) on conflict (digest) do nothing"
