"""The SIEM configuration of an organization."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.outbound import LONGEST_URL
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.siem import LONGEST_CREDENTIAL, MOST_IN_A_BATCH
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody, Origins
from entrypoints.http.machinery.callers import ANYONE, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SECRET, CreatedAt, Id, Name, OrganizationPath, UpdatedAt, bounded, changed, example
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from ports.tenancy.receivers import ShownSiem

_TAGS = ("siem",)
_SIEM = "/api/organizations/{org_slug}/siem"
_MANAGE = able(Capability.INTEGRATIONS_MANAGE, impersonated=True)
# The SIEM receives the audit log, and outlasts an impersonation.
_REDIRECT = able(Capability.INTEGRATIONS_MANAGE, impersonated=False)

_Credential = Annotated[str, SECRET, bounded({"maxLength": LONGEST_CREDENTIAL}), example("b2b1c5a0-4f1d-4c5e-9d55-0c1f4f9a7e21")]
_KEY: Final = {"kty": "EC", "crv": "P-256", "kid": "9f2c1a7e", "use": "sig", "alg": "ES256", "x": "f83OJ3D2xF1B…", "y": "x_FEzRu9m36H…"}


class SiemBody(msgspec.Struct, frozen=True):
    """The SIEM that receives the audit log and the sign-ins."""

    name: Annotated[Name, example("Our SIEM")]
    """1 to 100 characters."""
    provider_type: Annotated[str, bounded({"minLength": 1, "maxLength": 30}), example("splunk_hec")]
    """The format of the batches: `splunk_hec`, `datadog`, `elastic`, or `generic` (NDJSON). `hec`, `log_intake`, `bulk` and `ndjson` are
    aliases.
    """
    endpoint_url: Annotated[
        str,
        bounded({"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://siem.example.org/intake"]),
    ]
    """The complete URL that batches are sent to: an `http` or `https` URL."""
    api_key: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """The API key or token of the SIEM. If omitted, it stays unchanged while the provider and the host stay the same. Null removes it."""
    auth_header: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """An additional header: the value of `Authorization`, or `Name: value`. With an `api_key`: only the name of the header for the key.
    Headers that frame the request or control its connection (`Host`, `Expect`, `Upgrade`, `TE` and similar) are rejected. If omitted, it
    stays unchanged while the provider and the host stay the same.
    """
    batch_size: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_IN_A_BATCH}), example(500)] | None = None
    """The maximum number of entries in a batch: 1 to 1000; 500 by default."""
    is_active: Annotated[bool, example(True)] | None = None
    """Whether Postern sends entries; true by default."""


class SiemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The SIEM that receives the audit log and the sign-ins, without credentials, and the state of the export."""

    id: Id
    name: Annotated[str, example("Our SIEM")]
    """The name of the SIEM."""
    provider_type: Annotated[str, example("splunk_hec")]
    """The format of the batches."""
    endpoint_url: Annotated[str, example("https://siem.example.org/intake")]
    """The URL that batches are sent to."""
    has_credentials: Annotated[bool, example(True)]
    """Whether a key, a token or a header is set. No response contains them."""
    batch_size: Annotated[int, example(500)]
    """The maximum number of entries in a batch."""
    is_active: Annotated[bool, example(True)]
    """Whether Postern sends entries."""
    last_delivered_at: datetime | None
    """When the SIEM last accepted a batch; null if it never did."""
    lag: Annotated[int, example(0)]
    """The number of entries that the SIEM has not accepted yet."""
    lag_seconds: Annotated[int, example(0)]
    """The age of the oldest of these entries in seconds."""
    last_error: Annotated[str, example("answered 503")] | None
    """The reason for the failure of the last attempt; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SiemTestResult(msgspec.Struct, frozen=True):
    """The result of the test."""

    success: Annotated[bool, example(True)]
    """Whether the SIEM accepted the item."""
    message: Annotated[str, example("The receiver accepted it")]
    """A description of the result."""


class ExportKeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Annotated[Sequence[dict[str, Any]], example([_KEY])]
    """The public key. This key does not rotate."""


@endpoint.post(_SIEM, caller=_REDIRECT, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def configure_siem(call: Call[SiemBody, None, OrganizationPath, Member], postern: Postern) -> SiemRecord:
    """Set the SIEM configuration of an organization

    Create the configuration, or change it. Postern sends all entries of the audit log, starting with the first, and all sign-ins from now
    on, in batches. Each of the two streams keeps the order of its numbers and has no gap. If the SIEM does not accept a batch, Postern
    sends it again, after increasing delays of up to 10 minutes. An entry can arrive twice, with the same number. The entries form a chain
    whose ends are signed; the guide on verifying the audit log offline describes how to check it.

    A changed configuration continues where the previous one stopped. A configuration that you delete and create again starts with the first
    entry. While the configuration is disabled, Postern sends nothing, and no entry is lost. You also need the permission to see the audit
    log.
    """
    body = call.body
    configured = await postern.tenancy.siem.configure(
        call.caller,
        call.actor,
        name=body.name,
        provider_type=body.provider_type,
        endpoint_url=body.endpoint_url,
        api_key=changed(body.api_key),
        auth_header=changed(body.auth_header),
        batch_size=body.batch_size,
        is_active=body.is_active,
    )
    return _record(configured)


@endpoint.get(_SIEM, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_siem_configuration(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SiemRecord:
    """Get the SIEM configuration of an organization

    Return the configuration, without its credentials, and the state of the export.
    """
    return _record(await postern.tenancy.siem.get(call.caller))


@endpoint.delete(_SIEM, caller=_MANAGE, keys=True, status=204, tags=_TAGS)
async def remove_siem(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the SIEM configuration of an organization

    Postern sends nothing from now on. A batch that is being sent at this time can still arrive.
    """
    await postern.tenancy.siem.remove(call.caller, call.actor)
    return NO_BODY


@endpoint.post(f"{_SIEM}/test", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def test_siem(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SiemTestResult:
    """Send a test item to the SIEM

    Postern sends one item of the stream `test`, which is not an entry of the log. `success` states whether the SIEM accepted the item. If
    it did not, `message` states the reason.
    """
    tried = await postern.tenancy.siem.test(call.caller, call.actor)
    return SiemTestResult(tried.success, tried.message)


@endpoint.get(
    "/.well-known/audit-export-keys.json", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, cache="public, max-age=300", origins=Origins.ALL
)
async def get_audit_export_keys(_call: Call, postern: Postern) -> ExportKeySet:
    """Get the public key that verifies exported audit logs

    Return the key that signs the ends of the chains that SIEMs receive, and offboarding evidence. It signs nothing else.
    """
    return ExportKeySet([dict(await postern.tenancy.siem.heads.public_key())])


_record = shown(ShownSiem, SiemRecord, within=("configuration", "health"), named={"provider_type": "configuration.provider"})
