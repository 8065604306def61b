"""The SIEM configuration of an organization."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from core.domain.changes import UNCHANGED, Unchanged
from core.domain.errors import BadRequest
from core.domain.outbound.destinations import LONGEST_URL
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.siem import LONGEST_CREDENTIAL, MOST_IN_A_BATCH
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import ANYONE, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.cors import Origins
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, Name, SlugOfOrganization, UpdatedAt, example
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from ports.tenancy.siem import ShownSiem

_TAGS = ("siem",)
_SIEM = "/api/organizations/{org_slug}/siem"
_MANAGE = able(Capability.INTEGRATIONS_MANAGE, impersonated=True)
# What is sent from here on, and to whom, outlasts an impersonation.
_REDIRECT = able(Capability.INTEGRATIONS_MANAGE, impersonated=False)

_Credential = Annotated[
    str, msgspec.Meta(extra_json_schema={"maxLength": LONGEST_CREDENTIAL}), example("b2b1c5a0-4f1d-4c5e-9d55-0c1f4f9a7e21")
]
_KEY: Final = {"kty": "EC", "crv": "P-256", "kid": "9f2c1a7e", "use": "sig", "alg": "ES256", "x": "f83OJ3D2xF1B…", "y": "x_FEzRu9m36H…"}


class SiemPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class SiemBody(msgspec.Struct, frozen=True):
    """Where the audit log and the sign-ins go."""

    name: Annotated[Name, example("Our SIEM")]
    """1 to 100 characters."""
    provider_type: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 30}), example("splunk_hec")]
    """The form of what is sent: `splunk_hec`, `datadog`, `elastic`, or `generic`, which is NDJSON. `hec`, `log_intake`, `bulk` and `ndjson`
    name the same forms.
    """
    endpoint_url: Annotated[
        str,
        msgspec.Meta(extra_json_schema={"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://siem.example.org/intake"]),
    ]
    """The whole URL that batches are sent to: an `http` or `https` URL."""
    api_key: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """The provider's key or token. If you leave it out, it stays as it is, as long as provider and host do; null removes it."""
    auth_header: _Credential | msgspec.UnsetType | None = msgspec.UNSET
    """What else to send: the value of `Authorization`, or `Name: value`, or beside an `api_key` just the name of the header that carries
    the key. A header that frames the request or steers its connection (`Host`, `Expect`, `Upgrade`, `TE` and the like) is refused. It stays
    as the key does.
    """
    batch_size: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_IN_A_BATCH}), example(500)] | None = None
    """How many entries leave together at most, 1 to 1000. 500, if you leave it out."""
    is_active: Annotated[bool, example(True)] | None = None
    """Whether anything is sent. True, if you leave it out."""


class SiemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where the audit log and the sign-ins go, without credentials, and how that is going."""

    id: Id
    name: Annotated[str, example("Our SIEM")]
    """The name."""
    provider_type: Annotated[str, example("splunk_hec")]
    """The form of what is sent."""
    endpoint_url: Annotated[str, example("https://siem.example.org/intake")]
    """Where batches are sent."""
    has_credentials: Annotated[bool, example(True)]
    """Whether there is a key, a token or a header. No answer shows them."""
    batch_size: Annotated[int, example(500)]
    """How many entries leave together at most."""
    is_active: Annotated[bool, example(True)]
    """Whether anything is sent."""
    last_delivered_at: datetime | None
    """When the receiver last took a batch; null if it never did."""
    lag: Annotated[int, example(0)]
    """How many entries it has not taken yet."""
    lag_seconds: Annotated[int, example(0)]
    """The age of the oldest of these."""
    last_error: Annotated[str, example("answered 503")] | None
    """Why the last attempt failed; null if it did not."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SiemTried(msgspec.Struct, frozen=True):
    """What became of the test."""

    success: Annotated[bool, example(True)]
    """Whether the receiver took it."""
    message: Annotated[str, example("The receiver took it")]
    """What happened, in words."""


class ExportKeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Annotated[Sequence[dict[str, Any]], example([_KEY])]
    """The public key. It does not rotate."""


@endpoint.post(_SIEM, caller=_REDIRECT, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def configure_siem(call: Call[SiemBody, None, SiemPath, Member], postern: Postern) -> SiemRecord:
    """Send the audit log and the sign-ins to a SIEM

    Makes the configuration of the organization, or changes it. All entries of the audit log are sent, from the first one on, and all
    sign-ins that happen from now on: in batches, each in the order of its numbers and without a gap. What was not received is sent again,
    after a while that gets longer, up to ten minutes. So an entry may arrive twice, with the same number. The entries form a chain whose
    ends are signed: the guide on verifying the audit log offline says how to check it. A change goes on where the configuration before
    stopped; one that is deleted and made again begins at the first entry. While it is disabled, nothing leaves, and nothing is lost. Needs
    the right to see the audit log, too.
    """
    body = call.body
    shown = await postern.tenancy.siem.configure(
        call.caller,
        call.actor,
        name=body.name,
        provider_type=body.provider_type,
        endpoint_url=body.endpoint_url,
        api_key=_or_unchanged(body.api_key),
        auth_header=_or_unchanged(body.auth_header),
        batch_size=body.batch_size,
        is_active=body.is_active,
    )
    return _record(shown)


@endpoint.get(_SIEM, caller=_MANAGE, tags=_TAGS)
async def siem_configuration(call: Call[None, None, SiemPath, Member], postern: Postern) -> SiemRecord:
    """Get the SIEM configuration, and how the export is going"""
    return _record(await postern.tenancy.siem.get(call.caller))


@endpoint.delete(_SIEM, caller=_MANAGE, status=204, tags=_TAGS)
async def remove_siem(call: Call[None, None, SiemPath, Member], postern: Postern) -> NoBody:
    """Delete the SIEM configuration

    Nothing leaves from now on. A batch that is on its way at this moment may still arrive.
    """
    await postern.tenancy.siem.remove(call.caller, call.actor)
    return NO_BODY


@endpoint.post(f"{_SIEM}/test", caller=_MANAGE, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def test_siem(call: Call[None, None, SiemPath, Member], postern: Postern) -> SiemTried:
    """Try whether the receiver takes what is sent

    Sends one item of the stream `test`, which is no entry. `success` tells whether the receiver took it, and `message` why not.
    """
    tried = await postern.tenancy.siem.test(call.caller, call.actor)
    return SiemTried(tried.success, tried.message)


@endpoint.get(
    "/.well-known/audit-export-keys.json", caller=ANYONE, limit=UNLIMITED, tags=_TAGS, cache="public, max-age=300", origins=Origins.ALL
)
async def export_keys(_call: Call, postern: Postern) -> ExportKeySet:
    """Get the key that verifies exported audit logs

    It signs the ends of the chains that SIEMs receive, and nothing else.
    """
    return ExportKeySet([dict(await postern.tenancy.siem.heads.public_key())])


def _or_unchanged(value: str | msgspec.UnsetType | None) -> str | Unchanged | None:
    return UNCHANGED if isinstance(value, msgspec.UnsetType) else value


def _record(shown: ShownSiem) -> SiemRecord:
    configuration, health = shown.configuration, shown.health
    return SiemRecord(
        id=configuration.id,
        name=configuration.name,
        provider_type=configuration.provider.value,
        endpoint_url=configuration.endpoint_url,
        has_credentials=configuration.has_credentials,
        batch_size=configuration.batch_size,
        is_active=configuration.is_active,
        last_delivered_at=health.last_delivered_at,
        lag=health.lag,
        lag_seconds=health.lag_seconds,
        last_error=health.last_error,
        created_at=configuration.created_at,
        updated_at=configuration.updated_at,
    )
