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
    """The SIEM that the audit log and the sign-ins go to."""

    name: Annotated[Name, example("Our SIEM")]
    """1 to 100 characters."""
    provider_type: Annotated[str, bounded({"minLength": 1, "maxLength": 30}), example("splunk_hec")]
    """The format of the batches: `splunk_hec`, `datadog`, `elastic`, or `generic` (NDJSON). `hec`, `log_intake`, `bulk` and `ndjson` are
    other names of these formats.
    """
    endpoint_url: Annotated[
        str,
        bounded({"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://siem.example.org/intake"]),
    ]
    """The whole URL that batches are sent to: an `http` or `https` URL."""
    api_key: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """The provider's key or token. If omitted, it stays as it is while provider and host stay the same. Null removes it."""
    auth_header: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """A further header: the value of `Authorization`, or `Name: value`, or beside an `api_key` just the name of the header for the key. A
    header that frames the request or steers its connection (`Host`, `Expect`, `Upgrade`, `TE` and the like) is refused. If you leave the
    field out, it stays as it is while provider and host stay the same.
    """
    batch_size: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_IN_A_BATCH}), example(500)] | None = None
    """The most entries in a batch, 1 to 1000; 500 by default."""
    is_active: Annotated[bool, example(True)] | None = None
    """Whether entries are sent; true by default."""


class SiemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The SIEM that the audit log and the sign-ins go to, without credentials, and the state of the export."""

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
    """The most entries in a batch."""
    is_active: Annotated[bool, example(True)]
    """Whether entries are sent."""
    last_delivered_at: datetime | None
    """When the receiver last accepted a batch; null if it never did."""
    lag: Annotated[int, example(0)]
    """The number of entries that the receiver has not accepted yet."""
    lag_seconds: Annotated[int, example(0)]
    """The age of the oldest of these entries."""
    last_error: Annotated[str, example("answered 503")] | None
    """The reason why the last attempt failed; null if it succeeded."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SiemTestResult(msgspec.Struct, frozen=True):
    """The outcome of a test."""

    success: Annotated[bool, example(True)]
    """Whether the receiver accepted the item."""
    message: Annotated[str, example("The receiver accepted it")]
    """The outcome in words."""


class ExportKeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Annotated[Sequence[dict[str, Any]], example([_KEY])]
    """The public key. This key does not rotate."""


@endpoint.post(_SIEM, caller=_REDIRECT, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def configure_siem(call: Call[SiemBody, None, OrganizationPath, Member], postern: Postern) -> SiemRecord:
    """Send the audit log and the sign-ins to a SIEM

    This creates the configuration of the organization, or changes it. Postern sends all entries of the audit log, from the first one on,
    and all sign-ins that happen from now on, in batches. Each of the two streams keeps the order of its numbers and has no gap. If the
    receiver does not accept a batch, Postern sends it again, after growing waits of up to ten minutes. So an entry may arrive twice, with
    the same number. The entries form a chain whose ends are signed: the guide on verifying the audit log offline says how to check it. A
    changed configuration continues where the previous one stopped; a configuration that you delete and create again begins at the first
    entry. While the configuration is disabled, Postern sends nothing, and no entry is lost. You also need the right to see the audit log.
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
    """Get the SIEM configuration, and the state of the export

    The response has no credentials of the SIEM.
    """
    return _record(await postern.tenancy.siem.get(call.caller))


@endpoint.delete(_SIEM, caller=_MANAGE, keys=True, status=204, tags=_TAGS)
async def remove_siem(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the SIEM configuration

    Postern sends nothing from now on. A batch that is on its way at this time may still arrive.
    """
    await postern.tenancy.siem.remove(call.caller, call.actor)
    return NO_BODY


@endpoint.post(f"{_SIEM}/test", caller=_MANAGE, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def test_siem(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SiemTestResult:
    """Send a test item to the SIEM

    Postern sends one item of the stream `test`, which is not an entry of the log. `success` says whether the receiver accepted it, and
    `message` why not.
    """
    tried = await postern.tenancy.siem.test(call.caller, call.actor)
    return SiemTestResult(tried.success, tried.message)


@endpoint.get(
    "/.well-known/audit-export-keys.json", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, cache="public, max-age=300", origins=Origins.ALL
)
async def get_audit_export_keys(_call: Call, postern: Postern) -> ExportKeySet:
    """Get the key that verifies exported audit logs

    The key signs the ends of the chains that SIEMs receive, and nothing else.
    """
    return ExportKeySet([dict(await postern.tenancy.siem.heads.public_key())])


_record = shown(ShownSiem, SiemRecord, within=("configuration", "health"), named={"provider_type": "configuration.provider"})
