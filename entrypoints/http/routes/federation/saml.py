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
from core.usecases.federation.saml.configurations import SamlStanding
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
    """The configuration by hand. Omitted fields keep their values; null removes a value."""

    enabled: bool
    """Whether people can sign in by SAML."""
    entity_id: _EntityId | msgspec.UnsetType | None = msgspec.UNSET
    """The service provider's entity ID, which it sends as Issuer. Required when enabled, unless it is known already. A different entity ID
    means a different service provider: the certificates and addresses of the previous one are deleted.
    """
    acs_url: _AcsUrl | msgspec.UnsetType | None = msgspec.UNSET
    """The URL that assertions go to, by HTTP-POST: https, or http on localhost. Required when enabled, unless it is known already."""
    slo_url: _SloUrl | msgspec.UnsetType | None = msgspec.UNSET
    """The service provider's single logout URL. Messages go there by HTTP-Redirect, unless its metadata name another binding. Postern's
    response uses the binding of the request.
    """
    name_id_format: _Format | msgspec.UnsetType | None = msgspec.UNSET
    """The format of a person's name: `emailAddress` (the default), `unspecified`, `persistent`, `transient`, or the URI of one of these."""
    attribute_mapping: _Mapping | msgspec.UnsetType | None = msgspec.UNSET
    """A mapping from sources to the names of attributes. The sources are `email`, `id`, `name`, `first_name`, `last_name`, `organization`,
    `organization_name`, `role` and `groups`. Null means `email` and `id` under these names.
    """
    sign_assertions: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether to sign the assertion; true by default."""
    sign_response: Annotated[bool, example(True)] | msgspec.UnsetType = msgspec.UNSET
    """Whether to sign the response around the assertion; true by default. At least one of the two must be signed."""
    require_signed_requests: Annotated[bool, example(False)] | msgspec.UnsetType = msgspec.UNSET
    """Whether requests must be signed by a certificate of the uploaded metadata; false by default. To turn this on, the metadata must have
    a certificate.
    """


class SamlResult(msgspec.Struct, frozen=True):
    """The outcome."""

    success: Success
    message: Annotated[str, example("SAML is enabled")]
    """The outcome in words."""


class SamlAcsEndpoint(msgspec.Struct, frozen=True):
    """An assertion consumer service URL of the service provider, from its metadata."""

    index: Annotated[int, example(0)]
    """The number by which requests may name this address."""
    url: Annotated[str, example("https://crm.example.com/saml/acs")]
    """The email address."""
    is_default: Annotated[bool, example(True)]
    """Whether the metadata call this address the default."""


class SamlConfigurationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The service provider, and the contents of its assertions."""

    enabled: Annotated[bool, example(True)]
    """Whether people can sign in by SAML."""
    entity_id: Annotated[str, example("https://crm.example.com/saml")] | None
    """The service provider's entity ID."""
    acs_url: Annotated[str, example("https://crm.example.com/saml/acs")] | None
    """The URL that assertions go to."""
    slo_url: Annotated[str, example("https://crm.example.com/saml/slo")] | None
    """The service provider's single logout URL."""
    name_id_format: _Format | None
    """The format of a person's name; null for the email address."""
    attribute_mapping: _Mapping | None
    """A mapping from sources to the names of attributes; null means `email` and `id`."""
    sign_assertions: Annotated[bool, example(True)]
    """Whether the assertion is signed."""
    sign_response: Annotated[bool, example(True)]
    """Whether the response around it is signed."""
    require_signed_requests: Annotated[bool, example(False)]
    """Whether requests must be signed."""
    has_certificate: Annotated[bool, example(True)]
    """Whether there is an active certificate. Without one, no one can sign in."""
    acs_endpoints: Sequence[SamlAcsEndpoint]
    """All addresses of the uploaded metadata. A request may name any of them."""
    request_certificates: Annotated[int, example(1)]
    """The number of known certificates of the service provider. Any of them may have signed a request."""
    encrypts_assertions: Annotated[bool, example(False)]
    """Whether assertions are encrypted. True if the uploaded metadata have a key for encryption."""
    metadata_uploaded_at: datetime | None
    """When the service provider's metadata were uploaded."""
    metadata_fetched_at: datetime | None
    """When the metadata was last fetched."""


class SamlCertificateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate for signing assertions, without its private key."""

    id: Id
    public_key: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """The X.509 certificate in PEM."""
    valid_from: datetime
    """The beginning of its validity."""
    valid_until: datetime
    """The end of its validity, after three years."""
    is_active: Annotated[bool, example(True)]
    """Whether this certificate signs."""
    created_at: CreatedAt
    last_signed_at: datetime | None
    """When the certificate last signed an assertion, to within a minute."""


class SamlCertificates(SamlCertificateRecord, frozen=True, kw_only=True):
    """The active certificate, and the state of a change to the next one."""

    metadata_fetched_at: datetime | None
    """When the metadata was last fetched."""
    next: SamlCertificateRecord | None
    """The certificate that follows the active one. The metadata already show it."""
    next_was_fetched: Annotated[bool, example(False)]
    """Whether someone has fetched the metadata since they show the next certificate."""


class SamlExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message in either direction, by its IDs and times, without data about people."""

    id: Id
    kind: Annotated[str, example("authn_request")]
    """`authn_request`, `response`, `logout_request`, `logout_response`, `our_logout_request` or `our_logout_response`."""
    binding: Annotated[str, example("redirect")]
    """`redirect` or `post`."""
    succeeded: Annotated[bool, example(False)]
    """Whether Postern accepted the message, or, for an answer, whether it reports success."""
    status: Annotated[str, example("NoPassive")]
    """For an answer: the last part of its SAML status."""
    reason: Annotated[str, example("it requests the response at a URL that is not configured")]
    """The reason of a failure, in words; empty if the message succeeded."""
    advice: Annotated[str, example("Set acs_url to the URL in AssertionConsumerServiceURL, or upload metadata that contains it")]
    """The change that avoids the failure."""
    message_id: Annotated[str, example("_9f2c")]
    """The message's own ID."""
    in_response_to: Annotated[str, example("")]
    """The ID of the message that this one answers."""
    certificate_id: Annotated[str, example("")] | None
    """The ID of Postern's certificate that signed the message."""
    created_at: CreatedAt


class SamlExchanges(msgspec.Struct, frozen=True):
    """The last fifty messages of the last seven days."""

    exchanges: Sequence[SamlExchangeRecord]
    """Newest first."""


class CertificateQuery(msgspec.Struct, frozen=True):
    activate: Annotated[bool, example(True)] = True
    """Whether the new certificate signs at once, in place of the active one. If false, it becomes the next certificate."""


class MetadataQuery(msgspec.Struct, frozen=True):
    signed: Annotated[bool, example(False)] = False
    """Whether to sign the document, by the active certificate."""


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
    """Configure SAML by hand

    The service becomes an identity provider for one service provider. Afterwards make a certificate: without one, no one can sign in. If
    the service provider has metadata, upload these first; then send only `enabled` and the attributes.
    """
    await postern.federation.saml.configure(call.caller, call.path.service_slug, _change(call.body), call.actor)
    return SamlResult(success=True, message="SAML is enabled" if call.body.enabled else "SAML is disabled")


@endpoint.get(_SAML, caller=_VIEW, keys=True, tags=_TAGS)
async def get_saml_configuration(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlConfigurationRecord:
    """Get the SAML configuration of a service

    The response has what the service provider needs to be known by, and what its assertions contain.
    """
    standing = await postern.federation.saml.get(call.caller, call.path.service_slug)
    return _configuration(standing.configuration, has_certificate=standing.configured.active is not None)


@endpoint.delete(_SAML, caller=_MANAGE, keys=True, tags=_TAGS)
async def disable_saml(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlResult:
    """Disable SAML, and delete its certificates with their keys

    No one can sign in by SAML with the next request. The rest of the configuration stays.
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
    """Configure SAML by the service provider's metadata

    Postern reads entity ID, assertion consumer services, single logout, name format and certificates from the document. If the document
    lists the configured name format, that format stays. `enabled` and the attributes stay, too: send them to `POST …/saml` afterwards. The
    document can turn `require_signed_requests` on, but not off: while it is on, metadata without a signing certificate are refused. The
    answer shows the result. If the metadata have a key for encryption, assertions are encrypted.
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
    """Create a certificate

    The certificate is valid for three years and signs from now on; the previous certificate and its key are deleted. With `activate=false`
    it becomes the next certificate: the metadata show it beside the active one, so service providers can learn of it, and nothing else
    changes until you activate it.
    """
    made = await postern.federation.saml.make_certificate(call.caller, call.path.service_slug, call.actor, activate=call.query.activate)
    return _certificate(made)


@endpoint.get(_CERTIFICATE, caller=_VIEW, keys=True, tags=_TAGS)
async def get_saml_certificates(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlCertificates:
    """Get the active certificate, and the next one if there is one

    `next_was_fetched` tells whether Postern's metadata was fetched since the next certificate was added.
    """
    return _certificates(await postern.federation.saml.certificate(call.caller, call.path.service_slug))


@endpoint.post(f"{_CERTIFICATE}/activate", caller=_DECIDE, keys=True, limit=CREDENTIALS, tags=_TAGS)
async def activate_saml_certificate(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlCertificateRecord:
    """Activate the next certificate

    The active certificate and its key are deleted. First check that the service provider knows the next certificate: it has fetched the
    metadata, or a sign-in with `saml/login?certificate=next` works.
    """
    return _certificate(await postern.federation.saml.activate_next(call.caller, call.path.service_slug, call.actor))


@endpoint.get(f"{_SAML}/exchanges", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_saml_exchanges(call: Call[None, None, ServicePath, Member], postern: Postern) -> SamlExchanges:
    """List the last SAML messages, and the reasons of failures

    Returns the last fifty messages of the last seven days, with time and direction. A refused message has the reason, and the change that
    helps.
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
    """Get the identity provider's metadata, for the service provider

    The metadata contains Postern's URLs and certificates. The request needs no credentials, so that the service provider can repeat it.
    """
    return await postern.federation.saml.metadata(ServiceName(call.path.org_slug, call.path.service_slug), signed=call.query.signed)


def _certificates(standing: SamlStanding) -> SamlCertificates:
    active, upcoming, fetched = standing.configured.active, standing.configured.next, standing.configuration.metadata_fetched_at
    assert active is not None  # noqa: S101 - for the type checker: without an active certificate the use case has already refused
    return SamlCertificates(
        **msgspec.structs.asdict(_certificate(active.certificate)),
        metadata_fetched_at=fetched,
        next=None if upcoming is None else _certificate(upcoming.certificate),
        next_was_fetched=upcoming is not None and fetched is not None and fetched >= upcoming.certificate.created_at,
    )
