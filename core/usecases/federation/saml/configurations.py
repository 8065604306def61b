"""SAML as members manage it: who the service provider is, which certificate signs, and why an exchange failed."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import structlog

from core.domain.branding import Branding
from core.domain.errors import NotFound, OrganizationNotActive, Overloaded, Unavailable
from core.domain.federation.saml.certificates import (
    WARNINGS,
    Certificate,
    CertificateNotMade,
    CertificateState,
    Signer,
    certificate_activated,
    certificate_made,
    due_warning,
    no_certificate,
    require_enabled,
    sealing_context,
    three_years_after,
)
from core.domain.federation.saml.configurations import (
    Configuration,
    ConfigurationChange,
    NameIdFormat,
    changed,
    configuration_changed,
    configuration_disabled,
    filled,
    unconfigured,
)
from core.domain.federation.saml.exchanges import Exchange
from core.domain.federation.saml.messages import OurMetadata
from core.domain.identifiers import SamlCertificateId
from core.domain.record.events import Actor
from core.domain.secrets import Secret
from core.domain.services.services import Service
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.services.services import found
from core.usecases.tenancy.rights import hold_rights
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.federation.saml.configurations import Configured, Expiring, SamlLookup
from ports.federation.saml.documents import CertificateMaker, SamlDocuments
from ports.ids import Ids
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.secrets import Secrets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

log = structlog.get_logger()

# How long others may keep metadata that are signed.
METADATA_VALID: Final = timedelta(days=7)
_SERIAL_BYTES: Final = 16
_ID_BYTES: Final = 20


class OpenSigner(Frozen):
    """Implements `ports.federation.saml.documents.PrivateKey`."""

    certificate: str
    key: Secret


class Standing(Frozen):
    """What a service has of SAML, and where its service provider stands."""

    configured: Configured
    configuration: Configuration


def opened(keyring: KeyRing, signer: Signer) -> OpenSigner:
    return _opened(keyring, signer.certificate.id, signer.certificate.pem, signer.sealed_private_key)


# What signs in a busy minute. The adapter that signs keeps as many keys.
@lru_cache(maxsize=64)
def _opened(keyring: KeyRing, certificate: SamlCertificateId, pem: str, sealed_private_key: bytes) -> OpenSigner:
    return OpenSigner(pem, Secret(keyring.open(sealed_private_key, sealing_context(certificate)).decode()))


def identity_provider(issuer: str, organization_slug: str, service_slug: str) -> str:
    """Our entity id for a service, which is also where its endpoints are."""
    return f"{issuer}/saml/{organization_slug}/{service_slug}"


class Saml:
    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        lookup: SamlLookup,
        documents: SamlDocuments,
        *,
        maker: CertificateMaker,
        keyring: KeyRing,
        templates: MailTemplates,
        metrics: Metrics,
        issuer: str,
        clock: Clock,
        ids: Ids,
        secrets: Secrets,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._documents = documents
        self._maker = maker
        self._keyring = keyring
        self._templates = templates
        self._metrics = metrics
        self._issuer = issuer
        self._clock = clock
        self._ids = ids
        self._secrets = secrets

    async def get(self, member: Member, service_slug: str) -> Standing:
        """Raises `NotFound`."""
        configured = found(await self._lookup.of_service(member.organization, service_slug))
        return Standing(configured, configured.configuration or unconfigured(configured.service, self._clock.now()))

    async def configure(self, member: Member, service_slug: str, change: ConfigurationChange, actor: Actor) -> None:
        """Raises `NotFound`, `BadRequest`, and `Forbidden` when the caller may no longer do this."""
        await self._change(member, service_slug, lambda before, now: changed(before, change, now), actor)

    async def fill(self, member: Member, service_slug: str, document: bytes, actor: Actor) -> Configuration:
        """From the service provider's metadata. Raises what `configure` does."""
        understood = await self._documents.read_metadata(document)
        return await self._change(member, service_slug, lambda before, now: filled(before, understood, now), actor)

    async def _change(
        self, member: Member, service_slug: str, change: Callable[[Configuration, datetime], Configuration], actor: Actor
    ) -> Configuration:
        async with self._unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug))
            now = self._clock.now()
            before = await uow.saml.configuration(service.id) or unconfigured(service.id, now)
            after = change(before, now)
            await uow.saml.save(after)
            await uow.record(configuration_changed(before, after, service, actor))
            await uow.commit()
        return after

    async def disable(self, member: Member, service_slug: str, actor: Actor) -> None:
        """With all certificates. May be repeated. Raises `NotFound`, and `Forbidden` when the caller may no longer do this."""
        async with self._unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            before = await uow.saml.configuration(service.id)
            if before is not None:
                await uow.saml.save(replace(before, enabled=False, updated_at=self._clock.now()))
                await uow.saml.delete_certificates(service.id)
                await uow.record(configuration_disabled(service, actor))
                await uow.commit()

    async def make_certificate(self, member: Member, service_slug: str, actor: Actor, *, activate: bool) -> Certificate:
        """It is valid for three years. With `activate` it signs from now on, in place of the one before; otherwise it is the next one.
        Raises `NotFound`, `BadRequest` while SAML is not enabled, `CertificateNotMade`, and `Forbidden`.
        """
        configured = found(await self._lookup.of_service(member.organization, service_slug))
        require_enabled(configured.configuration)
        now = self._clock.now().replace(microsecond=0)
        until = three_years_after(now)
        serial = int.from_bytes(self._secrets.key_bytes(_SERIAL_BYTES), "big") >> 1 or 1
        # Two primes take up to half a second: not with the service held.
        try:
            pem, key = await self._maker.make(
                f"{configured.organization_slug}/{configured.service_slug}", serial, int(now.timestamp()), int(until.timestamp())
            )
        except (ValueError, OSError) as error:
            raise CertificateNotMade(detail=str(error)) from error
        certificate = Certificate(
            id=SamlCertificateId(self._ids.new()),
            service=configured.service,
            state=CertificateState.ACTIVE if activate else CertificateState.NEXT,
            pem=pem,
            valid_from=now,
            valid_until=until,
            created_at=self._clock.now(),
        )
        sealed = self._keyring.seal(key.reveal().encode(), sealing_context(certificate.id))
        async with self._unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            require_enabled(await uow.saml.configuration(service.id))
            await uow.saml.add_certificate(certificate, sealed)
            await uow.record(certificate_made(certificate, service, actor))
            await uow.commit()
        return certificate

    async def activate_next(self, member: Member, service_slug: str, actor: Actor) -> Certificate:
        """Raises `NotFound` when there is no next certificate, and what `make_certificate` does."""
        async with self._unit_of_work() as uow:
            service = await _held_with_certificates(uow, member, service_slug)
            activated = await uow.saml.activate_next(service.id)
            if activated is None:
                raise NotFound("The service has no next certificate: make one with activate=false first")
            await uow.record(certificate_activated(activated, service, actor))
            await uow.commit()
        return activated

    async def certificate(self, member: Member, service_slug: str) -> Standing:
        """Raises `NotFound`, also when there is no active certificate."""
        standing = await self.get(member, service_slug)
        if standing.configured.active is None:
            raise no_certificate()
        return standing

    async def exchanges(self, member: Member, service_slug: str) -> Sequence[Exchange]:
        """The last fifty, newest first. Raises `NotFound`."""
        return found(await self._lookup.exchanges(member.organization, service_slug))

    async def metadata(self, organization_slug: str, service_slug: str, *, signed: bool) -> bytes:
        """What service providers are given. Raises `NotFound` while there is nothing that they could use, and `OrganizationNotActive`."""
        configured = await self._lookup.public(organization_slug, service_slug, fetched=self._clock.now())
        configuration, active = require_usable(configured)
        assert configured is not None  # noqa: S101 - for the type checker: it is usable
        entity = identity_provider(self._issuer, organization_slug, service_slug)
        known = [active, *([] if configured.next is None else [configured.next])]
        metadata = OurMetadata(
            id=f"_{self._secrets.key_bytes(_ID_BYTES).hex()}",
            entity_id=entity,
            sso_url=f"{entity}/sso",
            slo_url=f"{entity}/slo",
            certificates=[one.certificate.pem for one in known],
            name_id_formats=[configuration.format, *(one for one in NameIdFormat if one is not configuration.format)],
            wants_requests_signed=configuration.require_signed_requests,
            valid_until=self._clock.now() + METADATA_VALID if signed else None,
        )
        return await self._documents.write_metadata(metadata, opened(self._keyring, active) if signed else None)

    async def all(self) -> Sequence[Configured]:
        """For operators: all services that have a configuration."""
        return await self._lookup.all()

    async def warn_of_ends(self, limit: int) -> int:
        """Tells the owners of certificates that end soon, once for each warning. Returns how many were told of."""
        now = self._clock.now()
        told = 0
        ending = await self._lookup.expiring(now + timedelta(days=max(WARNINGS)), limit)
        self._metrics.saml_certificates_ending(len(ending))
        for expiring in ending:
            days = due_warning(expiring.certificate.valid_until, expiring.warned_days, now)
            try:
                told += days is not None and await self._warn(expiring, days)
            except (Unavailable, Overloaded):
                raise
            except Exception:
                # The others are told all the same.
                log.exception("saml_warning_failed", certificate=str(expiring.certificate.id))
        return told

    async def _warn(self, expiring: Expiring, days: int) -> bool:
        async with self._unit_of_work() as uow:
            if not await uow.saml.warned(expiring.certificate.id, days):
                return False
            for owner in await uow.saml.owners(expiring.organization):
                mail = self._templates.mail(
                    "saml_certificate_ends",
                    owner.email.address,
                    account=owner.user,
                    language=owner.language,
                    branding=Branding(expiring.organization_name),
                    service=expiring.service_name,
                    date=f"{expiring.certificate.valid_until:%Y-%m-%d}",
                )
                await uow.jobs.add(mail.as_job())
            await uow.commit()
        return True


async def _held_with_certificates(uow: UnitOfWork, member: Member, service_slug: str) -> Service:
    await hold_rights(uow, member, Capability.SERVICES_MANAGE)
    await uow.saml.hold_certificates(member.organization, service_slug)
    return found(await uow.services.hold(member.organization, service_slug))


def require_usable(configured: Configured | None) -> tuple[Configuration, Signer]:
    """Raises `NotFound` for a service that has no SAML that anybody could use, and `OrganizationNotActive`."""
    if configured is None or configured.configuration is None or not configured.configuration.enabled or configured.active is None:
        raise not_usable()
    if not configured.organization_is_active:
        raise OrganizationNotActive("The organization of this application is not active", words="application_closed")
    return configured.configuration, configured.active


def not_usable() -> NotFound:
    return NotFound("There is no SAML for this service: it is not enabled, or has no certificate", words="saml_unknown")
