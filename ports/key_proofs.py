"""Proofs of keys, as the use case needs them."""

from typing import Protocol

from core.domain.key_proofs.proofs import ReadKeyProof
from core.domain.key_proofs.replays import UsedKeyProof


class KeyProofReader(Protocol):
    def read(self, text: str) -> ReadKeyProof:
        """The proof, if the key that it names has signed it. Only public keys of the accepted kinds and sizes count. Raises
        `KeyProofRefused`.
        """


class UsedKeyProofs(Protocol):
    async def use(self, proof: UsedKeyProof) -> bool:
        """False when the proof was used before, in any process."""
