"""SAML messages to and from service providers. Each message gets an id, is checked, counts once, is signed, and is recorded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final

from core.domain.errors import NotFound
from core.domain.federation.oauth.authorization_steps import organization_closed
from core.domain.federation.saml.certificates import Signer, sealing_context
from core.domain.federation.saml.configurations import Configuration
from core.domain.federation.saml.exchanges import ExchangeKind, SamlExchange, kept_id
from core.domain.federation.saml.messages import RememberedRequest, remembered, require_signature, require_taken
from core.domain.identifiers import SamlCertificateId, SamlExchangeId, ServiceId
from core.domain.identity.sign_in import ServiceName
from core.domain.saml.entities import KeyPair
from core.domain.saml.messages import MessageHead, MessageRefused, SamlBinding, Status
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.encryption import KeyRing
from ports.federation.saml.configurations import Configured
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_ID_BYTES: Final = 20


class ServiceProvider(Frozen):
    """A service whose SAML can be used."""

    configured: Configured
    configuration: Configuration
    signer: Signer

    @property
    def service(self) -> ServiceId:
        return self.configured.service

    @property
    def place(self) -> ServiceName:
        return ServiceName(self.configured.organization_slug, self.configured.service_slug)


class ReceivedMessage:
    """A message that is being read."""

    def __init__(self) -> None:
        self.id = ""
        """Empty until it could be read."""


class SamlMessages(Frozen):
    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    metrics: Metrics
    issuer: str
    system: System

    def entity_id(self, place: ServiceName) -> str:
        """Our entity ID for a service. The URLs of the service's endpoints begin with the entity ID."""
        return f"{self.issuer}/saml/{place.organization}/{place.service}"

    def new_id(self) -> str:
        return f"_{self.system.secrets.key_bytes(_ID_BYTES).hex()}"

    def opened(self, signer: Signer) -> KeyPair:
        return _opened(self.keyring, signer.certificate.id, signer.certificate.pem, signer.sealed_private_key)

    @asynccontextmanager
    async def received(self, service: ServiceId, kind: ExchangeKind, binding: SamlBinding) -> AsyncIterator[ReceivedMessage]:
        """Records a refused message in a unit of work of its own, because a refused message changes nothing else."""
        message = ReceivedMessage()
        try:
            yield message
        except MessageRefused as refusal:
            async with self.unit_of_work() as uow:
                refused = self.exchange(service, kind, binding, reason=refusal.reason, advice=refusal.advice, message=message.id)
                await self.record(uow, refused)
                await uow.commit()
            raise

    def require_acceptable(self, head: MessageHead, configuration: Configuration, destination: str) -> None:
        """Checks the head of a message, and its signature where one is required. Raises `MessageRefused`."""
        require_taken(head, configuration, destination, self.system.clock.now())
        require_signature(head, configuration)

    def remembered(self, request_id: str) -> RememberedRequest:
        """The entry with which `SamlStore` takes each request once."""
        return remembered(self.system.ids.new(), request_id, self.system.clock.now())

    def exchange(
        self,
        service: ServiceId,
        kind: ExchangeKind,
        binding: SamlBinding,
        *,
        status: Status | None = None,
        reason: str = "",
        advice: str = "",
        message: str = "",
        in_response_to: str = "",
        certificate: SamlCertificateId | None = None,
        succeeded: bool | None = None,
    ) -> SamlExchange:
        """An exchange that happens now. Without `succeeded`, an exchange without a `reason` has succeeded."""
        return SamlExchange(
            id=SamlExchangeId(self.system.ids.new()),
            service=service,
            kind=kind,
            binding=binding,
            succeeded=not reason if succeeded is None else succeeded,
            status="" if status is None else status.last,
            reason=reason,
            advice=advice,
            message=kept_id(message),
            in_response_to=kept_id(in_response_to),
            certificate=certificate,
            created_at=self.system.clock.now(),
        )

    async def record(self, uow: UnitOfWork, *exchanges: SamlExchange) -> None:
        """Adds exchanges to the flight recorder of the service, within the caller's unit of work, without a round trip of its own."""
        await uow.saml.exchanged(*exchanges)
        for exchange in exchanges:
            self.metrics.saml_exchanged(exchange.kind.value, succeeded=exchange.succeeded)


# The cache holds the keys that sign in a busy minute. The signing adapter keeps as many keys.
@lru_cache(maxsize=64)
def _opened(keyring: KeyRing, certificate: SamlCertificateId, pem: str, sealed_private_key: bytes) -> KeyPair:
    return KeyPair(pem, Secret(keyring.open(sealed_private_key, sealing_context(certificate)).decode()))


def usable(configured: Configured | None) -> ServiceProvider:
    """Raises `NotFound` for a service without usable SAML, and `OrganizationNotActive`."""
    if configured is None or configured.configuration is None or not configured.configuration.enabled or configured.active is None:
        raise not_usable()
    if not configured.organization_is_active:
        raise organization_closed()
    return ServiceProvider(configured, configured.configuration, configured.active)


def not_usable() -> NotFound:
    return NotFound("There is no SAML for this service: it is not enabled, or has no certificate", words="saml_unknown")
