"""SAML certificates: the key pairs that sign a service's assertions. One certificate is active. At most one more is published beforehand,
so that service providers can learn of it before it signs.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.saml.configurations import Configuration
from core.domain.identifiers import SamlCertificateId, ServiceId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.services.services import Service
from core.frozen import Frozen

# The owners get a mail so many days before a certificate ends, the earliest first.
WARNINGS: Final = (60, 30, 7)
# Operators are told so long that a certificate has ended. Afterwards, its application evidently does without.
REPORTED_AFTER_END: Final = timedelta(days=30)


class CertificateState(StrEnum):
    ACTIVE = "active"
    """This certificate signs."""
    NEXT = "next"
    """The metadata show this certificate, and it does not sign yet."""


class Certificate(Frozen, kw_only=True):
    """A certificate without its private key. Only signing needs the private key."""

    id: SamlCertificateId
    service: ServiceId
    state: CertificateState
    pem: str
    valid_from: datetime
    valid_until: datetime
    created_at: datetime
    last_signed_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.state is CertificateState.ACTIVE


class Signer(Frozen):
    """A certificate with its private key, sealed."""

    certificate: Certificate
    sealed_private_key: bytes


def sealing_context(certificate: SamlCertificateId) -> str:
    return f"saml_certificates.sealed_private_key:{certificate}"


def require_enabled(configuration: Configuration | None) -> Configuration:
    """The configuration, if SAML is enabled. Raises `BadRequest`."""
    if configuration is None or not configuration.enabled:
        raise BadRequest("SAML is not enabled for this service: enable it first", words="saml_off")
    return configuration


def no_certificate() -> NotFound:
    return NotFound("The service has no active certificate")


def certificate_made(certificate: Certificate, service: Service, actor: Actor) -> Event:
    return _event("service.saml.certificate.created", certificate, service, actor)


def certificate_activated(certificate: Certificate, service: Service, actor: Actor) -> Event:
    return _event("service.saml.certificate.activated", certificate, service, actor)


def _event(name: str, certificate: Certificate, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {
        "service_slug": service.slug,
        "certificate_id": str(certificate.id),
        "state": certificate.state.value,
        "valid_until": certificate.valid_until.isoformat(),
    }
    return Event(name, actor, Target("service", str(service.id)), service.organization, details)
