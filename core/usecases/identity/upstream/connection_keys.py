"""Our key pairs at SAML providers: each provider knows one of ours that it shares with nobody."""

from typing import Final

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.connections import next_private_key_context, private_key_context
from core.domain.saml.certificates import CertificateNotMade, three_years_after
from core.frozen import Frozen
from ports.encryption import KeyRing
from ports.saml.certificates import CertificateMaker
from ports.system import System

_SERIAL_BYTES: Final = 16


class SealedPair(Frozen):
    """A certificate in PEM, with its private key."""

    certificate: str
    sealed_key: bytes


class ConnectionKeys(Frozen):
    maker: CertificateMaker
    keyring: KeyRing
    system: System

    async def make(self, provider: UpstreamProviderId, *, follows: bool = False) -> SealedPair:
        """Makes a key pair that is valid for three years, in up to half a second. `follows`: the pair is sealed as the next one. Raises
        `CertificateNotMade`.
        """
        now = self.system.clock.now().replace(microsecond=0)
        serial = int.from_bytes(self.system.secrets.key_bytes(_SERIAL_BYTES), "big") >> 1 or 1
        try:
            pem, key = await self.maker.make(str(provider), serial, int(now.timestamp()), int(three_years_after(now).timestamp()))
        except (ValueError, OSError) as error:
            raise CertificateNotMade(detail=str(error)) from error
        context = next_private_key_context(provider) if follows else private_key_context(provider)
        return SealedPair(pem, self.keyring.seal(key.reveal().encode(), context))
