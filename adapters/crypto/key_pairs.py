"""New pairs for the signing keys. Pairs of RSA can be made ahead: a first start looks for their primes while it waits for PostgreSQL."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_elliptic
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa

from core.domain.tokens import KeyPurpose, TokenAlgorithm

PrivateKey = EllipticCurvePrivateKey | RSAPrivateKey

RSA_BITS: Final = 2048
# A current and a next key for each purpose.
_OF_EACH: Final = 2


def new_pair(purpose: KeyPurpose) -> PrivateKey:
    """Blocks for a moment if it makes a pair of RSA, without holding up other threads."""
    if purpose.algorithm is TokenAlgorithm.ES256:
        return generate_elliptic(SECP256R1())
    return generate_rsa(public_exponent=65537, key_size=RSA_BITS)


class PairsAhead:
    """Each pair is handed out once. One thread may make them while another takes them."""

    def __init__(self) -> None:
        self._made: list[PrivateKey] = []

    def make(self) -> None:
        """Makes all that a first start needs and that take their time. Blocks, and so runs in a thread."""
        for purpose in KeyPurpose:
            if purpose.algorithm is TokenAlgorithm.RS256:
                for _ in range(_OF_EACH):
                    self._made.append(new_pair(purpose))

    def take(self, purpose: KeyPurpose) -> PrivateKey:
        """Blocks as `new_pair` does if none was made ahead."""
        if purpose.algorithm is TokenAlgorithm.RS256:
            try:
                return self._made.pop()
            except IndexError:
                pass
        return new_pair(purpose)
