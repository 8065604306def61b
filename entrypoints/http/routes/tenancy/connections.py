"""The life cycle of an enterprise connection: tests, the owner's approval, metadata, certificates, and the recorder."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, NotFound, Overloaded
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.connection_tests import Check, ConnectionExchange
from core.domain.saml import LONGEST_CERTIFICATE, LONGEST_METADATA, CertificateNotMade
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawXml
from entrypoints.http.machinery.callers import ANYONE, OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Line, Uri, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.routes.tenancy.upstream_providers import (
    PROVIDER,
    UpstreamProviderPath,
    UpstreamProviderRecord,
    record_of,
)

_TAGS = ("connections",)
_MANAGE: Final = able(Capability.SETTINGS_MANAGE, impersonated=True)
_IN_PERSON: Final = able(Capability.SETTINGS_MANAGE, impersonated=False)
_METADATA_TYPE: Final = "application/samlmetadata+xml"


class ConnectionTestStart(msgspec.Struct, frozen=True, kw_only=True):
    """A test that awaits a browser."""

    id: Id
    url: Annotated[Uri, example("https://id.example.org/ui/connections/test?state=3q2-7w")]
    """The URL of the page that starts the test. The first browser that presses the button within 15 minutes runs the test."""


class ConnectionCheckRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a provider's response."""

    name: Annotated[str, example("audience")]
    """The short name of the check."""
    state: Annotated[str, example("failed")]
    """`passed` or `failed`."""
    words: Annotated[str, example("The assertion is for another service provider.")]
    """A description of the result."""
    came: Annotated[str, example("https://other.example.org")]
    """The value in the response, unless it identifies a person."""
    expected: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009")]
    """The value that Postern expected."""
    mend: Annotated[str, example("Set Postern's entity ID as the audience at the identity provider.")]
    """How to fix the failure."""


class ConnectionExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange with the provider, without data about people."""

    id: Id
    reference: Annotated[str, example("7D21C0FFEE")]
    """The reference that the person saw when the sign-in failed."""
    kind: Annotated[str, example("sign_in")]
    """The kind of exchange: `sign_in`, `test` or `logout`."""
    succeeded: Annotated[bool, example(False)]
    """Whether Postern accepted the provider's response."""
    fault: Annotated[str, example("audience_differs")]
    """The short name of the failure; empty if the exchange succeeded."""
    reason: Annotated[str, example("The assertion is for another service provider.")]
    """The reason for the failure."""
    advice: Annotated[str, example("Set Postern's entity ID as the audience at the identity provider.")]
    """How to fix the failure."""
    checks: Sequence[ConnectionCheckRecord]
    """For SAML: the checks of the response."""
    certificate: Annotated[str, example("9f2c4d…")]
    """The SHA-256 fingerprint of the provider's certificate that signed the response; empty for OpenID Connect."""
    message_id: Annotated[str, example("_9f2c")]
    """The ID of the response."""
    in_response_to: Annotated[str, example("_1b7e")]
    """The ID of the request that the response names."""
    created_at: CreatedAt
    times: Annotated[int, example(1)]
    """The number of occurrences. Messages that anyone can send are counted in one entry of each kind."""
    last_at: datetime | None
    """When the last of several counted messages arrived; null for an entry of a single exchange."""


class ConnectionExchanges(msgspec.Struct, frozen=True):
    """The last 50 exchanges of the last 7 days, and one entry of each kind for messages that anyone can send."""

    exchanges: Sequence[ConnectionExchangeRecord]
    """The exchanges, the newest first."""


class DirectoryMetadataQuery(msgspec.Struct, frozen=True):
    url: Annotated[Line, example("https://login.acme.example/saml/metadata")] = ""
    """The https URL of the metadata, instead of a document in the body. Postern stores the URL."""


_Certificate = Annotated[
    str,
    bounded({"maxLength": LONGEST_CERTIFICATE}),
    example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n"),
]


class ConnectionCertificateBody(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of the provider, or a change of Postern's key pair."""

    certificate: _Certificate = ""
    """A certificate of the provider to accept in addition to the known ones, in PEM or base64."""
    activate: Annotated[bool, example(False)] = False
    """Without `certificate`: false creates Postern's next key pair, and true starts signing with it, in place of the current one."""


class ConfirmedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the owner approves."""

    digest: Annotated[
        str,
        bounded({"minLength": 64, "maxLength": 64}),
        example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3"),
    ]
    """The `digest` of the settings that you have seen. If the settings have changed since, the response is 409."""


class ReplacedProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The provider that is replaced."""

    provider_id: Annotated[UUID, example("0199d3a0-0000-7000-8000-000000000008")]
    """The ID of the replaced provider."""


class DirectoryPath(msgspec.Struct, frozen=True):
    connection_id: UUID
    """The ID of the organization's identity provider."""


@endpoint.post(
    f"{PROVIDER}/test",
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def test_upstream_provider(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> ConnectionTestStart:
    """Test an identity provider

    Open `url` in a browser and sign in at the provider. The test does not create a session in Postern. The last page shows each check, its
    result, and how to fix a failure. If all checks pass, an owner can activate the provider, as long as its settings do not change.
    Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    started = await postern.tenancy.connection_tests.start(call.caller, UpstreamProviderId(call.path.provider_id))
    return ConnectionTestStart(id=started.id, url=started.url)


@endpoint.post(
    f"{PROVIDER}/activate",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def activate_upstream_provider(
    call: Call[ConfirmedSettings, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Activate an identity provider

    Only an owner can do this. Send the `digest` of the settings; if they have changed since, the response is 409. A SAML provider must have
    passed a test with its current settings. Settings made with a setup link must have been handed over to an owner. Requires a recent
    sign-in or reauthentication, with MFA if you have it enabled.
    """
    activated = await postern.tenancy.connections.activate(
        call.caller, UpstreamProviderId(call.path.provider_id), call.actor, seen=call.body.digest
    )
    return record_of(postern, activated)


@endpoint.post(f"{PROVIDER}/succeed", caller=OWNER_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def succeed_upstream_provider(
    call: Call[ReplacedProvider, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Set an identity provider as the successor of another

    An identity provider confirms the email addresses of its users. If a different provider confirms such an address for the first time,
    Postern deletes the account's credentials, sessions and identities. The successor of a provider confirms addresses without this effect.
    You can set the successor even after the former provider is deleted. Only an owner can do this. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    provider, former = UpstreamProviderId(call.path.provider_id), UpstreamProviderId(call.body.provider_id)
    return record_of(postern, await postern.tenancy.connections.succeed(call.caller, provider, former, call.actor))


@endpoint.get(f"{PROVIDER}/exchanges", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_connection_exchanges(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> ConnectionExchanges:
    """List the recent exchanges with an identity provider

    Return the last exchanges, and why they failed. If a sign-in fails, the person sees a reference. Use it to find the exchange.
    """
    listed = await postern.tenancy.connections.exchanges(call.caller, UpstreamProviderId(call.path.provider_id))
    return ConnectionExchanges([_exchange(one) for one in listed])


@endpoint.post(
    f"{PROVIDER}/metadata",
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    accepts=RawXml(LONGEST_METADATA),
    refuses=(BadRequest, Conflict, Overloaded),
    tags=_TAGS,
)
async def upload_upstream_provider_metadata(
    call: Call[bytes, DirectoryMetadataQuery, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Import the metadata of a SAML provider

    Send the document, or its URL as `url`. Postern reads the entity ID, the URLs and the certificates. If the settings change, the provider
    becomes a draft again. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    filled = await postern.tenancy.connections.fill(
        call.caller, UpstreamProviderId(call.path.provider_id), call.actor, document=call.body, address=call.query.url
    )
    return record_of(postern, filled)


@endpoint.post(
    f"{PROVIDER}/certificate",
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, CertificateNotMade, Conflict, Overloaded),
    tags=("provider-certificates",),
)
async def change_connection_certificate(
    call: Call[ConnectionCertificateBody, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Add a certificate of a SAML provider, or rotate Postern's key pair

    If an owner adds a certificate of the provider, it is valid at once. If anyone else adds it, the provider becomes a draft again.
    Postern's own key pair rotates in two steps: first the metadata contains the next one, then Postern signs with it. Requires a recent
    sign-in or reauthentication, with MFA if you have it enabled.
    """
    connections, provider, body = postern.tenancy.connections, UpstreamProviderId(call.path.provider_id), call.body
    if body.certificate:
        return record_of(postern, await connections.trust(call.caller, provider, call.actor, body.certificate))
    change = connections.advance if body.activate else connections.follow
    return record_of(postern, await change(call.caller, provider, call.actor))


@endpoint.get(
    "/saml/sp/{connection_id}",
    caller=ANYONE,
    limit=PAGE_LOADS,
    produces=_METADATA_TYPE,
    cache="public, max-age=300",
    refuses=(NotFound, Overloaded),
    tags=("saml",),
)
async def get_connection_metadata(call: Call[None, None, DirectoryPath], postern: Postern) -> bytes:
    """Get Postern's SAML metadata for an identity provider

    Return the metadata of Postern as the service provider, to import at the identity provider. During a key rotation, the metadata contains
    both certificates.
    """
    return await postern.tenancy.connections.metadata(UpstreamProviderId(call.path.connection_id))


_check = shown(Check, ConnectionCheckRecord)
_exchange = shown(
    ConnectionExchange,
    ConnectionExchangeRecord,
    named={"message_id": "message"},
    checks=lambda exchange: [_check(one) for one in exchange.checks],
)


_CONNECTION_CERTIFICATE_TAGS: Final = ("provider-certificates",)
_WAITING: Final = f"{PROVIDER}/certificate/waiting/{{fingerprint}}"


class WaitingCertificatePath(UpstreamProviderPath, frozen=True):
    fingerprint: Annotated[Word, example("9f2c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80912")]
    """The certificate's SHA-256 fingerprint, as in `waiting_certificates`."""


@endpoint.post(
    _WAITING,
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_CONNECTION_CERTIFICATE_TAGS,
    verb="upstream-provider approve-certificate",
)
async def approve_connection_certificate(
    call: Call[None, None, WaitingCertificatePath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Approve a new certificate of an identity provider

    The certificate came with the provider's metadata, but Postern could not verify that it is the provider's. Compare its fingerprint with
    the one that the provider's administrator gives you over another channel. Once approved, the certificate is valid in addition to the
    known ones. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    path = call.path
    approved = await postern.tenancy.connection_refreshes.approve(
        call.caller, UpstreamProviderId(path.provider_id), path.fingerprint, call.actor
    )
    return record_of(postern, approved)


@endpoint.delete(
    _WAITING,
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    tags=_CONNECTION_CERTIFICATE_TAGS,
    verb="upstream-provider decline-certificate",
)
async def decline_connection_certificate(
    call: Call[None, None, WaitingCertificatePath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Decline a new certificate of an identity provider

    While the metadata contains the certificate, Postern does not ask for its approval again. Requires a recent sign-in or reauthentication,
    with MFA if you have it enabled.
    """
    path = call.path
    declined = await postern.tenancy.connection_refreshes.decline(
        call.caller, UpstreamProviderId(path.provider_id), path.fingerprint, call.actor
    )
    return record_of(postern, declined)


@endpoint.delete(
    f"{PROVIDER}/certificate/former",
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    tags=_CONNECTION_CERTIFICATE_TAGS,
    verb="upstream-provider drop-certificate",
)
async def delete_former_certificate(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> UpstreamProviderRecord:
    """Delete Postern's former key pair at an identity provider

    After a rotation, the former key pair still decrypts what the provider encrypts for it. Delete it once the provider has read Postern's
    metadata again. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    dropped = await postern.tenancy.connections.drop_former(call.caller, UpstreamProviderId(call.path.provider_id), call.actor)
    return record_of(postern, dropped)
