"""Proofs of keys: what a request has to show beside its token, or to have its token bound (DPoP, RFC 9449)."""

from core.domain.key_proofs.nonces import PURPOSE, NonceRule, counts, nonce_at
from core.domain.key_proofs.proofs import KeyProofRefused, KeyThumbprint, NonceNeeded, ProvenRequest, ShownKey, shown_key
from core.domain.key_proofs.replays import used_proof
from core.frozen import Frozen
from ports.clock import Clock
from ports.key_proofs import KeyProofReader, UsedKeyProofs
from ports.server_secrets import ServerSecrets


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
        return nonce_at(self.clock.now(), await self.server_secrets.get(PURPOSE))

    async def use(self, shown: ShownKey, *, is_confidential: bool) -> KeyThumbprint:
        """Uses the proof up. Raises `NonceNeeded` where a nonce is asked for and the proof has none that counts, and `KeyProofRefused` for
        a proof that was used before.
        """
        now = self.clock.now()
        if self.nonces.asks(is_confidential=is_confidential) and (
            shown.nonce is None or not counts(shown.nonce, now, await self.server_secrets.get(PURPOSE))
        ):
            raise NonceNeeded
        if not await self.used.use(used_proof(shown.key, shown.proof_id, now)):
            raise KeyProofRefused("DPoP: this proof was used before: make one for each request")
        return shown.key
