"""Proofs of keys: what a request has to show beside its token, or to have its token bound (DPoP, RFC 9449)."""

from core.domain.key_proofs import (
    NONCE_PURPOSE,
    KeyProofRefused,
    KeyThumbprint,
    NonceNeeded,
    NonceRule,
    ProvenRequest,
    ShownKey,
    nonce_at,
    nonce_counts,
    shown_key,
    used_proof,
)
from core.frozen import Frozen
from ports.crypto import KeyProofReader, ServerSecrets, UsedKeyProofs
from ports.system import Clock


class KeyProofs(Frozen):
    reader: KeyProofReader
    used: UsedKeyProofs
    server_secrets: ServerSecrets
    clock: Clock
    nonces: NonceRule

    def read(self, text: str, request: ProvenRequest) -> ShownKey:
        """The key that the proof shows, for this request and at this moment. Raises `KeyProofRefused`."""
        return shown_key(self.reader.read(text), request, self.clock.now())

    async def nonce(self, *, is_confidential: bool) -> str | None:
        """The nonce that this client's next proof needs. None if none is asked of it."""
        if not self.nonces.asks(is_confidential=is_confidential):
            return None
        return nonce_at(self.clock.now(), await self.server_secrets.get(NONCE_PURPOSE))

    async def use(self, shown: ShownKey, *, is_confidential: bool) -> KeyThumbprint:
        """Uses the proof up. Raises `NonceNeeded` where a nonce is asked for and the proof has none that counts, and `KeyProofRefused` for
        a proof that was used before.
        """
        now = self.clock.now()
        if self.nonces.asks(is_confidential=is_confidential) and (
            shown.nonce is None or not nonce_counts(shown.nonce, now, await self.server_secrets.get(NONCE_PURPOSE))
        ):
            raise NonceNeeded
        if not await self.used.use(used_proof(shown.key, shown.proof_id, now)):
            raise KeyProofRefused("DPoP: this proof was already used: create one for each request")
        return shown.key
