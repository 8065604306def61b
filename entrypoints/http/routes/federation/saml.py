"""SAML: the identity provider of a service, as members manage it, and its metadata."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, Overloaded
from core.domain.federation.saml.configurations import Certificate, Configuration, ConfigurationChange
from core.domain.federation.saml.messages import SamlExchange
from core.domain.identity.sign_in import ServiceName
from core.domain.saml import LONGEST_ENTITY_ID, LONGEST_METADATA, CertificateNotMade
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.federation.saml.configurations import SamlSnapshot
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawXml
from entrypoints.http.machinery.callers import ANYONE, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, ServicePath, Success, Uri, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS

_TAGS = ("saml",)
_SAML: Final = "/api/organizations/{org_slug}/services/{service_slug}/saml"
_CERTIFICATE: Final = f"{_SAML}/certificate"
_VIEW: Final = able(Capability.SERVICES_VIEW, impersonated=True)
_MANAGE: Final = able(Capability.SERVICES_MANAGE, impersonated=True)
# The recipient of assertions, and the certificate that signs them, outlast an impersonation.
_DECIDE: Final = able(Capability.SERVICES_MANAGE, impersonated=False)
_METADATA_TYPE: Final = "application/samlmetadata+xml"
_EMAIL_FORMAT: Final = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"

_EntityId = Annotated[str, bounded({"maxLength": LONGEST_ENTITY_ID}, examples=["https://crm.example.com/saml"])]
_AcsUrl = Annotated[Uri, example("https://crm.example.com/saml/acs")]
_SloUrl = Annotated[Uri, example("https://crm.example.com/saml/slo")]
_Format = Annotated[str, bounded({"maxLength": 100}, examples=[_EMAIL_FORMAT])]
_Mapping = Annotated[Mapping[Word, Any], example({"email": "mail", "id": "uid"})]


class SamlConfigurationBody(msgspec.Struct, frozen=True, kw_only=True):
    """The SAML settings to set manually. Omitted fields keep their values; null removes a value."""

    enabled: bool
    """Whether people can sign in by SAML."""
    entity_id: _EntityId | msgspec.UnsetType | None = msgspec.UNSET
    """The service provider's entity ID, which it sends as Issuer. Required when SAML is enabled, unless it is already set. If you set a
    different entity ID, the certificates and URLs of the previous service provider are deleted.
    """
    acs_url: _AcsUrl | msgspec.UnsetType | None = msgspec.UNSET
    """The assertion consumer service URL (HTTP-POST): https, or http on localhost. Required when SAML is enabled, unless it is already set.
    """
    slo_url: _SloUrl | msgspec.UnsetType | None = msgspec.UNSET
    """The service provider's single logout URL. Postern sends messages by HTTP-Redirect, unless the metadata specify another binding.
    Responses use the binding of the request.
    """
    name_id_format: _Format | msgspec.UnsetType | None = msgspec.UNSET
    """The NameID format: `emailAddress` (the default), `unspecified`, `persistent`, `transient`, or the URI of one of these."""
    attribute_mapping: _Mapping | msgspec.UnsetType | None = msgspec.UNSET
    """The attribute mapping, from sources to attribute names. The sources are `email`, `id`, `name`, `first_name`, `last_name`,
    `organization`, `organization_name`, `role` and `groups`. Null: `email` and `id` under these names.
    """
    sign_assertions: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether to sign the assertion; true by default."""
    sign_response: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether to sign the response that contains the assertion; true by default. At least one of the two must be signed."""
    require_signed_requests: Annotated[bool, example(False)] | msgspec.UnsetType = msgspec.UNSET
    """Whether requests must be signed with a certificate from the uploaded metadata; false by default. To turn this on, the metadata must
    contain a certificate.
    """


class SamlResult(msgspec.Struct, frozen=True):
    """The result of the request."""

    success: Success
    message: Annotated[str, example("SAML is enabled")]
    """A description of the result."""


class SamlAcsEndpoint(msgspec.Struct, frozen=True):
    """An assertion consumer service URL of the service provider, from its metadata."""

    index: Annotated[int, example(0)]
    """The index by which requests can select this URL."""
    url: Annotated[str, example("https://crm.example.com/saml/acs")]
    """The URL."""
    is_default: Annotated[bool, example(True)]
    """Whether the metadata mark this URL as the default."""


class SamlConfigurationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The SAML settings of a service: the service provider, and the contents of assertions."""

    enabled: Annotated[bool, example(True)]
    """Whether people can sign in by SAML."""
    entity_id: Annotated[str, example("https://crm.example.com/saml")] | None
    """The service provider's entity ID."""
    acs_url: Annotated[str, example("https://crm.example.com/saml/acs")] | None
    """The assertion consumer service URL."""
    slo_url: Annotated[str, example("https://crm.example.com/saml/slo")] | None
    """The service provider's single logout URL."""
    name_id_format: _Format | None
    """The NameID format; null for the email address."""
    attribute_mapping: _Mapping | None
    """The attribute mapping, from sources to attribute names; null for `email` and `id`."""
    sign_assertions: Annotated[bool, example(True)]
    """Whether the assertion is signed."""
    sign_response: Annotated[bool, example(True)]
    """Whether the response that contains the assertion is signed."""
    require_signed_requests: Annotated[bool, example(False)]
    """Whether requests must be signed."""
    has_certificate: Annotated[bool, example(True)]
    """Whether an active certificate exists. Without one, no one can sign in."""
    acs_endpoints: Sequence[SamlAcsEndpoint]
    """All assertion consumer service URLs of the uploaded metadata. A request can select any of them."""
    request_certificates: Annotated[int, example(1)]
    """The number of the service provider's known certificates. A request can be signed with any of them."""
    encrypts_assertions: Annotated[bool, example(False)]
    """Whether assertions are encrypted. True if the uploaded metadata contain an encryption key."""
    metadata_uploaded_at: datetime | None
    """When the service provider's metadata were last uploaded."""
    metadata_fetched_at: datetime | None
    """When Postern's metadata were last fetched."""


class SamlCertificateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate for signing assertions, without its private key."""

    id: Id
    public_key: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """The X.509 certificate in PEM format."""
    valid_from: datetime
    """When the certificate becomes valid."""
    valid_until: datetime
    """When the certificate expires, 3 years later."""
    is_active: Annotated[bool, example(True)]
    """Whether Postern signs with this certificate."""
    created_at: CreatedAt
    last_signed_at: datetime | None
    """When the certificate last signed an assertion, with a precision of 1 minute."""


class SamlCertificates(SamlCertificateRecord, frozen=True, kw_only=True):
    """The active certificate, and the state of the rollover to the next one."""

    metadata_fetched_at: datetime | None
    """When Postern's metadata were last fetched."""
    next: SamlCertificateRecord | None
    """The next certificate, which the metadata already contain."""
    next_was_fetched: Annotated[bool, example(False)]
    """Whether the metadata were fetched since they contain the next certificate."""


class SamlExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SAML message in either direction, with its IDs and times, and without personal data."""

    id: Id
    kind: Annotated[str, example("authn_request")]
    """`authn_request`, `response`, `logout_request`, `logout_response`, `our_logout_request` or `our_logout_response`."""
    binding: Annotated[str, example("redirect")]
    """`redirect` or `post`."""
    succeeded: Annotated[bool, example(False)]
    """Whether Postern accepted the message. For a response: whether it reports success."""
    status: Annotated[str, example("NoPassive")]
    """For a response: the last part of its SAML status code."""
    reason: Annotated[str, example("it requests the response at a URL that is not configured")]
    """The reason for a failure; empty if the message succeeded."""
    advice: Annotated[str, example("Set acs_url to the URL in AssertionConsumerServiceURL, or upload metadata that contains it")]
    """The change that fixes the failure."""
    message_id: Annotated[str, example("_9f2c")]
    """The ID of the message."""
    in_response_to: Annotated[str, example("")]
    """The ID of the message that this message responds to."""
    certificate_id: Annotated[str, example("")] | None
    """The ID of Postern's certificate that signed the message."""
    created_at: CreatedAt


class SamlExchanges(msgspec.Struct, frozen=True):
    """The last 50 messages of the last 7 days."""

    exchanges: Sequence[SamlExchangeRecord]
    """The messages, newest first."""


class CertificateQuery(msgspec.Struct, frozen=True):
    activate: Annotated[bool, example(True)] = True
    """Whether the new certificate replaces the active one immediately. If false, it becomes the next certificate."""


class MetadataQuery(msgspec.Struct, frozen=True):
    signed: Annotated[bool, example(False)] = False
    """Whether to sign the metadata with the active certificate."""


_change = taken(SamlConfigurationBody, ConfigurationChange)
_configuration = shown(
    Configuration,
    SamlConfigurationRecord,
    given=("has_certificate",),
    acs_endpoints=lambda one: [SamlAcsEndpoint(end.index, end.url, end.is_default is True) for end in one.acs_endpoints],
    request_certificates=lambda one: len(one.signing_certificates),
    encrypts_assertions=lambda one: one.encryption_certificate is not None,
)
_certificate = shown(Certificate, SamlCertificateRecord, named={"public_key": "pem"})
_exchange = shown(
    SamlExchange,
    SamlExchangeRecord,
    named={"message_id": "message"},
    certificate_id=lambda one: None if one.certificate is None else str(one.certificate),
)


@endpoint.post(_SAML, caller=_DECIDE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def configure_saml(call: Call[SamlConfigurationBody, None, ServicePath, Member], postern: Postern) -> SamlResult:
    """Configure SAML manually

    Makes the service an identity provider for one service provider. If the service provider has metadata, upload the metadata first. Then
    send only `enabled` and the attribute mapping. Afterwards, create a certificate: without one, no one can sign in.
    """
    await postern.federation.saml.configure(call.caller, call.path.service_slug, _change(call.body), call.actor)
    return SamlResult(success=True, message="SAML is enabled" if call.body.enabled else "SAML is disabled")


@endpoint.get(_SAML, caller=_VIEW, keys=True, tags=_TAGS)
async def get_saml_configuration(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlConfigurationRecord:
    """Get the SAML configuration of a service

    Returns the details of the service provider, and the contents of its assertions.
    """
    standing = await postern.federation.saml.get(call.caller, call.path.service_slug)
    return _configuration(standing.configuration, has_certificate=standing.configured.active is not None)


@endpoint.delete(_SAML, caller=_MANAGE, keys=True, tags=_TAGS)
async def disable_saml(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlResult:
    """Disable SAML

    The certificates and their private keys are deleted. From the next request, no one can sign in with SAML. The other settings stay.
    """
    await postern.federation.saml.disable(call.caller, call.path.service_slug, call.actor)
    return SamlResult(success=True, message="SAML is disabled, and its certificates are deleted")


@endpoint.post(
    f"{_SAML}/metadata",
    caller=_DECIDE,
    keys=True,
    limit=CREDENTIALS,
    accepts=RawXml(LONGEST_METADATA),
    refuses=(BadRequest, Overloaded),
    tags=_TAGS,
)
async def upload_saml_metadata(call: Call[bytes, None, ServicePath, Member], postern: Postern) -> SamlConfigurationRecord:
    """Upload the metadata of a service provider

    Postern reads the entity ID, assertion consumer services, single logout, NameID format and certificates from the metadata. If the
    metadata list the configured NameID format, that format stays. `enabled` and the attribute mapping also stay: change them with `POST
    …/saml`.

    The metadata can turn `require_signed_requests` on, but not off. While it is on, metadata without a signing certificate are rejected. If
    the metadata contain an encryption key, assertions are encrypted. The response has the resulting configuration.
    """
    service = call.path.service_slug
    filled = await postern.federation.saml.fill(call.caller, service, call.body, call.actor)
    standing = await postern.federation.saml.get(call.caller, service)
    return _configuration(filled, has_certificate=standing.configured.active is not None)


@endpoint.post(
    _CERTIFICATE,
    caller=_DECIDE,
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest, CertificateNotMade),
    tags=_TAGS,
    verb="service-saml-certificate create",
)
async def create_saml_certificate(call: Call[None, CertificateQuery, ServicePath, Member], postern: Postern) -> SamlCertificateRecord:
    """Create a SAML signing certificate

    The certificate is valid for 3 years and signs immediately. The previous certificate and its private key are deleted. With
    `activate=false`, it becomes the next certificate: the metadata contain it in addition to the active one. Service providers can fetch
    it, and nothing else changes until you activate it.
    """
    made = await postern.federation.saml.make_certificate(call.caller, call.path.service_slug, call.actor, activate=call.query.activate)
    return _certificate(made)


@endpoint.get(_CERTIFICATE, caller=_VIEW, keys=True, tags=_TAGS)
async def get_saml_certificates(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlCertificates:
    """Get the SAML signing certificates

    Returns the active certificate, and the next one if it exists. `next_was_fetched` says whether Postern's metadata were fetched since the
    next certificate was added.
    """
    return _certificates(await postern.federation.saml.certificate(call.caller, call.path.service_slug))


@endpoint.post(f"{_CERTIFICATE}/activate", caller=_DECIDE, keys=True, limit=CREDENTIALS, tags=_TAGS)
async def activate_saml_certificate(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlCertificateRecord:
    """Activate the next SAML signing certificate

    The active certificate and its private key are deleted. First, verify that the service provider trusts the next certificate. Either it
    has fetched the metadata, or a sign-in with `saml/login?certificate=next` works.
    """
    return _certificate(await postern.federation.saml.activate_next(call.caller, call.path.service_slug, call.actor))


@endpoint.get(f"{_SAML}/exchanges", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_saml_exchanges(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlExchanges:
    """List SAML messages

    Returns the last 50 messages of the last 7 days, newest first, with time and direction. A rejected message has the reason, and the
    change that fixes it.
    """
    return SamlExchanges([_exchange(one) for one in await postern.federation.saml.exchanges(call.caller, call.path.service_slug)])


@endpoint.get(
    "/saml/{org_slug}/{service_slug}/metadata",
    caller=ANYONE,
    limit=PAGE_LOADS,
    produces=_METADATA_TYPE,
    cache="public, max-age=300",
    refuses=(NotFound, OrganizationNotActive, Overloaded),
    tags=_TAGS,
)
async def get_saml_metadata(call: Call[None, MetadataQuery, ServicePath], postern: Postern) -> bytes:
    """Get the SAML identity provider metadata

    Returns Postern's URLs and certificates for the service provider. No authentication is required, so the service provider can fetch the
    metadata regularly.
    """
    return await postern.federation.saml.metadata(ServiceName(call.path.org_slug, call.path.service_slug), signed=call.query.signed)


def _certificates(standing: SamlSnapshot) -> SamlCertificates:
    active, upcoming, fetched = standing.configured.active, standing.configured.next, standing.configuration.metadata_fetched_at
    assert active is not None  # noqa: S101 - for the type checker: without an active certificate the use case has already refused
    return SamlCertificates(
        **msgspec.structs.asdict(_certificate(active.certificate)),
        metadata_fetched_at=fetched,
        next=None if upcoming is None else _certificate(upcoming.certificate),
        next_was_fetched=upcoming is not None and fetched is not None and fetched >= upcoming.certificate.created_at,
    )
