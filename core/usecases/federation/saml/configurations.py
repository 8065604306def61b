"""SAML for the members who manage it: the service provider's configuration, the signing certificates, and the failed exchanges."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.errors import NotFound, Overloaded, Unavailable, found
from core.domain.federation.saml.configurations import (
    CERTIFICATE_WARNINGS,
    REPORTED_AFTER_END,
    Certificate,
    CertificateState,
    Configuration,
    ConfigurationChange,
    certificate_activated,
    certificate_made,
    changed,
    configuration_changed,
    configuration_disabled,
    filled,
    no_certificate,
    require_enabled,
    saml_certificate_context,
    unconfigured,
)
from core.domain.federation.saml.messages import OurMetadata, SamlExchange
from core.domain.identifiers import SamlCertificateId
from core.domain.identity.sign_in import ServiceName
from core.domain.record.events import Actor
from core.domain.saml import CertificateNotMade, NameIdFormat, due_certificate_warning, three_years_after
from core.domain.services.services import Service
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.federation.saml.answers import SamlMessages, usable_provider
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.ownerships import tell_owners
from core.usecases.tenancy.rights import find_rights_for_update
from ports.crypto import KeyRing
from ports.federation.saml import Configured, Expiring, SamlDocuments, SamlLookup
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.saml import CertificateMaker
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

# Service providers may cache signed metadata for this time.
METADATA_VALID: Final = timedelta(days=7)
_SERIAL_BYTES: Final = 16


class SamlSnapshot(Frozen):
    """A service as members see its SAML. `configuration` is the default while the service has none."""

    configured: Configured
    configuration: Configuration


class Saml(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SamlLookup
    documents: SamlDocuments
    messages: SamlMessages
    maker: CertificateMaker
    keyring: KeyRing
    templates: MailTemplates
    metrics: Metrics
    system: System

    async def get(self, member: Member, service_slug: str) -> SamlSnapshot:
        """Raises `NotFound`."""
        configured = found(await self.lookup.of_service(member.organization, service_slug), NO_SUCH_SERVICE)
        return SamlSnapshot(configured, configured.configuration or unconfigured(configured.service, self.system.clock.now()))

    async def configure(self, member: Member, service_slug: str, change: ConfigurationChange, actor: Actor) -> None:
        """Raises `NotFound`, `BadRequest`, and `Forbidden` when the caller may no longer do this."""
        await self._change(member, service_slug, lambda before, now: changed(before, change, now), actor)

    async def fill(self, member: Member, service_slug: str, document: bytes, actor: Actor) -> Configuration:
        """Fills the configuration from the service provider's metadata. Raises the errors of `configure`."""
        understood = await self.documents.read_metadata(document)
        return await self._change(member, service_slug, lambda before, now: filled(before, understood, now), actor)

    async def _change(
        self, member: Member, service_slug: str, change: Callable[[Configuration, datetime], Configuration], actor: Actor
    ) -> Configuration:
        async with self.unit_of_work() as uow:
            await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
            now = self.system.clock.now()
            before = await uow.saml.configuration(service.id) or unconfigured(service.id, now)
            after = change(before, now)
            await uow.saml.save(after)
            await uow.record(configuration_changed(before, after, service, actor))
            await uow.commit()
        return after

    async def disable(self, member: Member, service_slug: str, actor: Actor) -> None:
        """Disables SAML for the service and deletes all its certificates. A second call changes nothing. Raises `NotFound`, and `Forbidden`
        when the caller may no longer manage services.
        """
        async with self.unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            before = await uow.saml.configuration(service.id)
            if before is not None:
                await uow.saml.save(replace(before, enabled=False, updated_at=self.system.clock.now()))
                await uow.saml.delete_certificates(service.id)
                await uow.record(configuration_disabled(service, actor))
                await uow.commit()

    async def make_certificate(self, member: Member, service_slug: str, actor: Actor, *, activate: bool) -> Certificate:
        """Makes a certificate that is valid for three years. With `activate`, the new certificate signs from now on and replaces the
        active certificate. Without `activate`, the new certificate becomes the next certificate, which does not sign yet. Raises
        `NotFound`, `BadRequest` while SAML is not enabled, `CertificateNotMade`, and `Forbidden`.
        """
        configured = found(await self.lookup.of_service(member.organization, service_slug), NO_SUCH_SERVICE)
        require_enabled(configured.configuration)
        now = self.system.clock.now().replace(microsecond=0)
        until = three_years_after(now)
        serial = int.from_bytes(self.system.secrets.key_bytes(_SERIAL_BYTES), "big") >> 1 or 1
        # To find two primes takes up to half a second, so the key is made before the service is locked.
        try:
            pem, key = await self.maker.make(
                f"{configured.organization_slug}/{configured.service_slug}", serial, int(now.timestamp()), int(until.timestamp())
            )
        except (ValueError, OSError) as error:
            raise CertificateNotMade(detail=str(error)) from error
        certificate = Certificate(
            id=SamlCertificateId(self.system.ids.new()),
            service=configured.service,
            state=CertificateState.ACTIVE if activate else CertificateState.NEXT,
            pem=pem,
            valid_from=now,
            valid_until=until,
            created_at=self.system.clock.now(),
        )
        sealed = self.keyring.seal(key.reveal().encode(), saml_certificate_context(certificate.id))
        async with self.unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            require_enabled(await uow.saml.configuration(service.id))
            await uow.saml.add_certificate(certificate, sealed)
            await uow.record(certificate_made(certificate, service, actor))
            await uow.commit()
        return certificate

    async def activate_next(self, member: Member, service_slug: str, actor: Actor) -> Certificate:
        """Makes the next certificate the active certificate. Raises `NotFound` when there is no next certificate, and the errors of
        `make_certificate`.
        """
        async with self.unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            activated = await uow.saml.activate_next(service.id)
            if activated is None:
                raise NotFound("The service has no next certificate: create one with activate=false first")
            await uow.record(certificate_activated(activated, service, actor))
            await uow.commit()
        return activated

    async def certificate(self, member: Member, service_slug: str) -> SamlSnapshot:
        """Raises `NotFound`, also when there is no active certificate."""
        standing = await self.get(member, service_slug)
        if standing.configured.active is None:
            raise no_certificate()
        return standing

    async def exchanges(self, member: Member, service_slug: str) -> Sequence[SamlExchange]:
        """The last fifty, newest first. Raises `NotFound`."""
        return found(await self.lookup.exchanges(member.organization, service_slug), NO_SUCH_SERVICE)

    async def metadata(self, place: ServiceName, *, signed: bool) -> bytes:
        """The metadata for service providers. Raises `NotFound` while the service has no usable SAML, and `OrganizationNotActive`."""
        provider = usable_provider(await self.lookup.public(place.organization, place.service, fetched=self.system.clock.now()))
        configuration, following = provider.configuration, provider.configured.next
        entity = self.messages.entity_id(place)
        metadata = OurMetadata(
            id=self.messages.new_id(),
            entity_id=entity,
            sso_url=f"{entity}/sso",
            slo_url=f"{entity}/slo",
            certificates=[one.certificate.pem for one in (provider.signer, following) if one is not None],
            name_id_formats=[configuration.format, *(one for one in NameIdFormat if one is not configuration.format)],
            wants_requests_signed=configuration.require_signed_requests,
            valid_until=self.system.clock.now() + METADATA_VALID if signed else None,
        )
        return await self.documents.write_metadata(metadata, self.messages.opened(provider.signer) if signed else None)

    async def all(self) -> Sequence[Configured]:
        """For operators: all services that have a configuration."""
        return await self.lookup.all()

    async def ending(self, within: timedelta, limit: int) -> Sequence[Expiring]:
        """For operators: the certificates that sign, and end within this time or have ended lately."""
        now = self.system.clock.now()
        return await self.lookup.expiring(now - REPORTED_AFTER_END, now + within, limit)

    async def warn_of_ends(self, limit: int) -> int:
        """Mails the owners about certificates that end soon, once for each warning. Returns the number of these certificates."""
        now = self.system.clock.now()
        told = 0
        ending = await self.ending(timedelta(days=max(CERTIFICATE_WARNINGS)), limit)
        self.metrics.saml_certificates_ending(len(ending), min((one.certificate.valid_until for one in ending), default=None))
        for expiring in ending:
            days = due_certificate_warning(expiring.certificate.valid_until, expiring.warned_days, now, CERTIFICATE_WARNINGS)
            try:
                told += days is not None and await self._warn(expiring, days)
            except (Unavailable, Overloaded):
                raise
            except Exception:
                # One failure does not stop the warnings about the other certificates.
                log.exception("saml_warning_failed", certificate=str(expiring.certificate.id))
        return told

    async def _warn(self, expiring: Expiring, days: int) -> bool:
        async with self.unit_of_work() as uow:
            if not await uow.saml.warned(expiring.certificate.id, days):
                return False
            await tell_owners(
                uow,
                self.templates,
                await uow.saml.owners(expiring.organization),
                "saml_certificate_ends",
                service=expiring.service_name,
                date=f"{expiring.certificate.valid_until:%Y-%m-%d}",
            )
            await uow.commit()
        return True


async def _held_with_certificates(uow: UnitOfWork, member: Member, service_slug: str) -> Service:
    await find_rights_for_update(uow, member, Capability.SERVICES_MANAGE)
    await uow.saml.lock_certificates(member.organization, service_slug)
    return found(await uow.services.find_for_update(member.organization, service_slug), NO_SUCH_SERVICE)
