"""The SAML configuration and certificates of an application."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from core.domain.errors import BadRequest, NotFound
from core.domain.formats import Json
from core.domain.identifiers import SamlCertificateId, ServiceId
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, RecordChange, Unchanged
from core.domain.saml import NameIdFormat, SamlBinding, entity_id, fingerprint
from core.domain.services.clients import web_page
from core.domain.services.services import Service
from core.frozen import Frozen, names_of, replace

MOST_ENDPOINTS: Final = 50
MOST_CERTIFICATES: Final = 10
MOST_ATTRIBUTES: Final = 50
LONGEST_ATTRIBUTE: Final = 256

_UNSUITABLE_IN_NAME: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class Source(StrEnum):
    """The data about a person that an attribute can have."""

    EMAIL = "email"
    ID = "id"
    NAME = "name"
    FIRST_NAME = "first_name"
    LAST_NAME = "last_name"
    ORGANIZATION = "organization"
    ORGANIZATION_NAME = "organization_name"
    ROLE = "role"
    GROUPS = "groups"


DEFAULT_ATTRIBUTES: Final[Mapping[str, str]] = {Source.EMAIL.value: "email", Source.ID.value: "id"}


class AcsEndpoint(Frozen):
    """An address at which the service provider accepts assertions, by its metadata."""

    index: int
    url: str
    is_default: bool | None = None
    """None when the metadata do not say. It is stored as False, since only a new upload chooses a default."""


class Configuration(Frozen, kw_only=True):
    """The SAML 2.0 configuration of an application's identity provider. Each application has one service provider."""

    service: ServiceId
    enabled: bool = False
    entity_id: str | None = None
    """The service provider's entity id, and not ours."""
    acs_url: str | None = None
    """The address that assertions go to, unless a request names another one of `acs_endpoints`."""
    slo_url: str | None = None
    slo_response_url: str | None = None
    """The address for answers to a sign-out, if it is another one."""
    slo_binding: SamlBinding | None = None
    """None when nobody has stated a binding. Then an answer uses the binding of the request. A request of ours uses the redirect binding,
    which every service provider without a statement accepts.
    """
    name_id_format: str | None = None
    attribute_mapping: Mapping[str, str] | None = None
    sign_assertions: bool = True
    sign_response: bool = True
    require_signed_requests: bool = False
    acs_endpoints: tuple[AcsEndpoint, ...] = ()
    signing_certificates: tuple[str, ...] = ()
    """The service provider's certificates, in PEM. A signature of any of them is accepted."""
    encryption_certificate: str | None = None
    metadata_uploaded_at: datetime | None = None
    metadata_fetched_at: datetime | None = None
    """When the metadata was last fetched."""
    created_at: datetime
    updated_at: datetime

    @property
    def format(self) -> NameIdFormat:
        return NameIdFormat.EMAIL if self.name_id_format is None else name_id_format(self.name_id_format)

    @property
    def attributes(self) -> Mapping[str, str]:
        return DEFAULT_ATTRIBUTES if self.attribute_mapping is None else self.attribute_mapping

    def acs(self, url: str | None, index: int | None) -> str | None:
        """The address for the assertion, when a request names this address or this index. None when the request names an unknown one."""
        if url is not None:
            known = {self.acs_url, *(one.url for one in self.acs_endpoints)}
            return url if url in known else None
        if index is not None:
            return next((one.url for one in self.acs_endpoints if one.index == index), None)
        return self.acs_url


class ConfigurationChange(RecordChange, kw_only=True):
    """A change of the configuration. Fields that are UNCHANGED keep their value, and None removes a value."""

    enabled: bool
    entity_id: str | Unchanged | None = UNCHANGED
    acs_url: str | Unchanged | None = UNCHANGED
    slo_url: str | Unchanged | None = UNCHANGED
    name_id_format: str | Unchanged | None = UNCHANGED
    attribute_mapping: Mapping[str, Any] | Unchanged | None = UNCHANGED
    sign_assertions: bool | Unchanged = UNCHANGED
    sign_response: bool | Unchanged = UNCHANGED
    require_signed_requests: bool | Unchanged = UNCHANGED


class Understood(Frozen, kw_only=True):
    """The content of a service provider's metadata, as far as we need it."""

    entity_id: str
    acs_endpoints: Sequence[AcsEndpoint]
    valid_until: datetime | None = None
    slo_url: str | None = None
    slo_response_url: str | None = None
    slo_binding: SamlBinding = SamlBinding.POST
    name_id_formats: Sequence[str] = ()
    signing_certificates: Sequence[str] = ()
    encryption_certificate: str | None = None
    requests_signed: bool = False
    wants_assertions_signed: bool = False


def unconfigured(service: ServiceId, now: datetime) -> Configuration:
    return Configuration(service=service, created_at=now, updated_at=now)


def name_id_format(text: str) -> NameIdFormat:
    """Reads a format by its URI, or by the last part of the URI. Raises `BadRequest`."""
    for one in NameIdFormat:
        if text in {one.value, one.short}:
            return one
    raise BadRequest(f"name_id_format: one of {', '.join(one.short for one in NameIdFormat)}, or its URI", words="field_choice")


def changed(before: Configuration, change: ConfigurationChange, now: datetime) -> Configuration:
    """The configuration after a change. Raises `BadRequest`, also when SAML is enabled without a service provider."""
    is_another = _names_another(before, change)
    kept = _without_service_provider(before) if is_another else before
    after = replace(kept, **change.said, updated_at=now)
    if after.slo_url != kept.slo_url:
        after = replace(after, slo_response_url=None, slo_binding=None)
    if after.require_signed_requests and not after.signing_certificates and (is_another or change.require_signed_requests is True):
        raise BadRequest(
            "require_signed_requests: no signing certificate of the service provider is known. Set this to false, or upload metadata"
            " with the certificate first",
            words="requests_unsigned",
        )
    return checked(after)


def _names_another(before: Configuration, change: ConfigurationChange) -> bool:
    """Whether the change names another service provider than before. The first service provider replaces none."""
    has_one = before.entity_id is not None or before.metadata_uploaded_at is not None
    return has_one and change.entity_id is not UNCHANGED and change.entity_id != before.entity_id


def _without_service_provider(configuration: Configuration) -> Configuration:
    """The configuration without the keys and addresses of its service provider, which another one must not inherit."""
    return replace(
        configuration,
        entity_id=None,
        acs_url=None,
        acs_endpoints=(),
        slo_url=None,
        slo_response_url=None,
        slo_binding=None,
        signing_certificates=(),
        encryption_certificate=None,
        metadata_uploaded_at=None,
    )


def checked(configuration: Configuration) -> Configuration:
    """Returns the configuration if it is valid. Raises `BadRequest`."""
    if configuration.enabled and not configuration.entity_id:
        raise _missing("entity_id")
    if configuration.enabled and not configuration.acs_url:
        raise _missing("acs_url")
    if configuration.entity_id is not None:
        entity_id(configuration.entity_id)
    if configuration.acs_url is not None:
        web_page(configuration.acs_url, "acs_url")
    if configuration.slo_url is not None:
        web_page(configuration.slo_url, "slo_url")
    if configuration.name_id_format is not None:
        name_id_format(configuration.name_id_format)
    if configuration.attribute_mapping is not None:
        _require_attributes(configuration.attribute_mapping)
    if not configuration.sign_assertions and not configuration.sign_response:
        raise BadRequest(
            "sign_assertions, sign_response: at least one must be true, otherwise the response cannot be trusted", words="sign_one"
        )
    return configuration


def filled(before: Configuration, understood: Understood, now: datetime) -> Configuration:
    """The configuration with the content of the metadata. Anything that the metadata do not mention stays as it is. Raises `BadRequest`."""
    if understood.valid_until is not None and understood.valid_until <= now:
        raise BadRequest("metadata: validUntil has passed. Upload the service provider's current metadata", words="metadata_expired")
    if len(understood.acs_endpoints) > MOST_ENDPOINTS:
        raise BadRequest(f"metadata: at most {MOST_ENDPOINTS} assertion consumer services", words="metadata_too_much")
    if len(understood.signing_certificates) > MOST_CERTIFICATES:
        raise BadRequest(f"metadata: at most {MOST_CERTIFICATES} signing certificates", words="metadata_too_much")
    for one in understood.acs_endpoints:
        web_page(one.url, "metadata: AssertionConsumerService")
    for url in filter(None, (understood.slo_url, understood.slo_response_url)):
        web_page(url, "metadata: SingleLogoutService")
    if before.require_signed_requests and not understood.signing_certificates:
        raise BadRequest(
            "metadata: there is no signing certificate, but require_signed_requests is true. Upload metadata with the certificate,"
            " or set require_signed_requests to false first",
            words="requests_unsigned",
        )
    return checked(
        replace(
            before,
            entity_id=understood.entity_id,
            acs_url=default_endpoint(understood.acs_endpoints).url,
            acs_endpoints=tuple(understood.acs_endpoints),
            slo_url=understood.slo_url,
            slo_response_url=understood.slo_response_url,
            slo_binding=None if understood.slo_url is None else understood.slo_binding,
            name_id_format=_format_by(understood, before),
            signing_certificates=tuple(understood.signing_certificates),
            encryption_certificate=understood.encryption_certificate,
            # Metadata can turn this on, and never off.
            require_signed_requests=before.require_signed_requests
            or (understood.requests_signed and bool(understood.signing_certificates)),
            sign_assertions=before.sign_assertions or understood.wants_assertions_signed,
            metadata_uploaded_at=now,
            updated_at=now,
        )
    )


def _format_by(understood: Understood, before: Configuration) -> str | None:
    """The format in use, unless the metadata list only others: people should keep their names. Without a configured service provider nobody
    has a name yet, so the first listed format wins.
    """
    known = [text for text in understood.name_id_formats if text in set(NameIdFormat)]
    in_use = before.entity_id is not None or before.name_id_format is not None
    if not known or (in_use and before.format in known):
        return before.name_id_format
    return known[0]


def default_endpoint(endpoints: Sequence[AcsEndpoint]) -> AcsEndpoint:
    """The first endpoint that is marked as the default, else the first that is not marked as no default, else the first (SAML metadata,
    section 2.2.3). Raises `BadRequest`.
    """
    if not endpoints:
        raise BadRequest("metadata: there is no AssertionConsumerService with the binding HTTP-POST", words="metadata_no_post")
    for wanted in (True, None):
        for one in endpoints:
            if one.is_default is wanted:
                return one
    return endpoints[0]


def configuration_changed(before: Configuration, after: Configuration, service: Service, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    changed = differences(_facts(before), _facts(after))
    details: dict[str, Json] = {"service_slug": service.slug, "enabled": after.enabled, **changed}
    return Event("service.saml.updated", actor, Target("service", str(service.id)), service.organization, details)


def configuration_disabled(service: Service, actor: Actor) -> Event:
    return Event("service.saml.disabled", actor, Target("service", str(service.id)), service.organization, {"service_slug": service.slug})


def _missing(name: str) -> BadRequest:
    return BadRequest(f"{name}: required when SAML is enabled", words="saml_required")


def _require_attributes(mapping: Mapping[str, Any]) -> None:
    sources = set(Source)
    if len(mapping) > MOST_ATTRIBUTES:
        raise BadRequest(f"attribute_mapping: at most {MOST_ATTRIBUTES} attributes", words="field_list", values={"most": MOST_ATTRIBUTES})
    for source, name in mapping.items():
        if source not in sources:
            raise BadRequest(f"attribute_mapping: a source is one of {', '.join(Source)}", words="field_choice")
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_ATTRIBUTE or _UNSUITABLE_IN_NAME.search(name):
            raise BadRequest(
                f"attribute_mapping: the name of {source} is 1 to {LONGEST_ATTRIBUTE} characters, without control characters",
                words="attribute_name",
                values={"most": LONGEST_ATTRIBUTE},
            )


def _facts(configuration: Configuration) -> Mapping[str, Json]:
    encrypting = configuration.encryption_certificate
    return {
        **{name: getattr(configuration, name) for name in names_of(ConfigurationChange) if name != "enabled"},
        "acs_endpoints": [one.url for one in configuration.acs_endpoints],
        "slo_response_url": configuration.slo_response_url,
        "slo_binding": None if configuration.slo_binding is None else configuration.slo_binding.value,
        "signing_certificates_sha256": [fingerprint(one) for one in configuration.signing_certificates],
        "encryption_certificate_sha256": None if encrypting is None else fingerprint(encrypting),
    }


# The owners get a mail so many days before a certificate ends, the earliest first.
CERTIFICATE_WARNINGS: Final = (60, 30, 7)
# Operators are told so long that a certificate has ended. Afterwards, its application evidently does without.
REPORTED_AFTER_END: Final = timedelta(days=30)


class CertificateState(StrEnum):
    ACTIVE = "active"
    """This certificate signs."""
    NEXT = "next"
    """The metadata show this certificate, and it does not sign yet."""


class Certificate(Frozen, kw_only=True):
    """A certificate whose key signs an application's assertions, without its private key, which only signing needs. One certificate is
    active. At most one more is published beforehand, so that service providers can import it before it signs.
    """

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


def saml_certificate_context(certificate: SamlCertificateId) -> str:
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
