"""Makes RSA key pairs that sign assertions, each with a self-signed certificate. Service providers trust the certificate because it is in
our metadata, and use nothing of it but the key.
"""

from datetime import UTC, datetime
from typing import Final

import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from core.domain.secrets import Secret

RSA_BITS: Final = 2048
# X.520: a common name has at most 64 characters.
_LONGEST_NAME: Final = 64


class RsaCertificates:
    """Implements `ports.saml.CertificateMaker`."""

    def __init__(self) -> None:
        # Finding two primes takes a good part of a second. One pair at a time is plenty.
        self._limiter = trio.CapacityLimiter(1)

    async def make(self, common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
        return await trio.to_thread.run_sync(_made, common_name, serial, valid_from, valid_until, limiter=self._limiter)


def _made(common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
    pair = generate_private_key(65537, RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_LONGEST_NAME])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(pair.public_key())
        .serial_number(serial)
        .not_valid_before(datetime.fromtimestamp(valid_from, UTC))
        .not_valid_after(datetime.fromtimestamp(valid_until, UTC))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(pair, SHA256())
    )
    private = pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), Secret(private.decode())
