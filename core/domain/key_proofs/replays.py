"""A proof counts once (RFC 9449 section 11.1), in whichever process. What was used is kept until it would count no more."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from core.domain.key_proofs.proofs import AGE, AHEAD, KeyThumbprint
from core.frozen import Frozen

# The clocks of the processes and of the database differ a little.
_MARGIN: Final = timedelta(seconds=30)


class UsedKeyProof(Frozen):
    digest: bytes
    expires_at: datetime


def used_proof(key: KeyThumbprint, proof_id: str, now: datetime) -> UsedKeyProof:
    """The ids of one key's proofs are the client's own affair: another key's proof with the same id is another proof."""
    digest = sha256(f"{key} {proof_id}".encode("utf-8", "surrogatepass")).digest()
    return UsedKeyProof(digest, now + AGE + AHEAD + _MARGIN)
