"""Key pairs for SAML."""

from typing import Protocol

from core.domain.secrets import Secret


class CertificateMaker(Protocol):
    """A library implements it."""

    async def make(self, common_name: str, serial: int, valid_from: int, valid_until: int) -> tuple[str, Secret]:
        """A new key pair: the self-signed certificate and the private key, both in PEM. The times are seconds since 1970."""
