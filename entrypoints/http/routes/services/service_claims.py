"""The claims that a service gets besides the standard ones."""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import ServiceClaimId
from core.domain.services.service_claims import LONGEST_CLAIM_NAME, ConfiguredClaim
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.services.service_claims import ServiceClaimChange
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, ServicePath, bounded, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("claims",)
_CLAIMS = "/api/organizations/{org_slug}/services/{service_slug}/claims"
_CLAIM = f"{_CLAIMS}/{{claim_id}}"
# A claim may open doors in the application, and outlives every session. So nobody sets one in another person's name.
_SET: Final = able(Capability.SERVICES_MANAGE, impersonated=False)

_Name = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_CLAIM_NAME}), example("https://wiki.acme.example/cost_center")]
_Source = Annotated[ClaimSource, example("organization_field")]
_Argument = Annotated[Any, example("cost_center")]
_Into = Annotated[tuple[ClaimPlace, ...], example(["id_token", "userinfo"])]


class ServiceClaimPath(ServicePath, frozen=True):
    claim_id: UUID
    """The claim's ID."""


class NewServiceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The custom claim to create."""

    name: _Name
    """The name: 1 to 200 letters, digits and `_.:/#@~+-`. Names of standard claims and of Postern's own claims are rejected, unless the
    claim is only in `saml`.
    """
    source: _Source
    """The source of the value. `person_field`: a field of the installation, only with the scope of the field. `organization_field`: a field
    of your organization. `roles`, `permissions`, `teams`: those of the person in the service and the organization. `organization`, `plan`,
    `features`, `constant`.
    """
    argument: _Argument = None
    """The key of the field, the attribute of the organization (`id`, `slug`, `name` or `role`), or the constant: at most 1024 bytes of
    JSON. Other sources have no argument.
    """
    into: _Into
    """Where the claim is issued: `id_token`, `userinfo`, `access_token`, `saml`."""


class ServiceClaimPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to a custom claim. Omitted fields keep their values."""

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    """The new name."""
    source: _Source | msgspec.UnsetType = msgspec.UNSET
    """The new source. Send the argument with it."""
    argument: _Argument = msgspec.UNSET
    """The new argument."""
    into: _Into | msgspec.UnsetType = msgspec.UNSET
    """Where the claim is issued."""


class ServiceClaimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A custom claim of the service."""

    id: Id
    name: _Name
    """The name of the claim or SAML attribute."""
    source: _Source
    """The source of the value."""
    argument: _Argument
    """The key of the field, the attribute of the organization, or the constant."""
    into: _Into
    """Where the claim is issued."""
    person_writes: Annotated[bool, example(False)] | None
    """Whether the person can edit the value of the field. If so, the claim proves nothing: do not use it for authorization. Null for a
    claim without a field, or whose field was deleted.
    """
    created_at: CreatedAt


@endpoint.get(_CLAIMS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_claims(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServiceClaimRecord]:
    """List custom claims

    Returns all custom claims of a service, sorted by name. A service has at most 50.
    """
    return [_record(claim) for claim in await postern.services.service_claims.list(call.caller, call.path.service_slug)]


@endpoint.post(_CLAIMS, caller=_SET, keys=True, limit=UNLIMITED, status=201, refuses=(BadRequest, Conflict), tags=_TAGS)
async def create_service_claim(call: Call[NewServiceClaim, None, ServicePath, Member], postern: Postern) -> ServiceClaimRecord:
    """Create a custom claim

    The claim takes effect with the next token.
    """
    return _record(await postern.services.service_claims.create(call.caller, call.path.service_slug, _wanted(call.body), call.actor))


@endpoint.patch(_CLAIM, caller=_SET, keys=True, limit=UNLIMITED, refuses=(BadRequest, Conflict), tags=_TAGS)
async def change_service_claim(call: Call[ServiceClaimPatch, None, ServiceClaimPath, Member], postern: Postern) -> ServiceClaimRecord:
    """Change a custom claim

    Send at least one field. The change applies to the next token.
    """
    path = call.path
    claim = ServiceClaimId(path.claim_id)
    return _record(await postern.services.service_claims.change(call.caller, path.service_slug, claim, _change(call.body), call.actor))


@endpoint.delete(_CLAIM, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, status=204, tags=_TAGS)
async def delete_service_claim(call: Call[None, None, ServiceClaimPath, Member], postern: Postern) -> NoBody:
    """Delete a custom claim

    The next token no longer has the claim. Issued tokens keep it until they expire.
    """
    path = call.path
    await postern.services.service_claims.delete(call.caller, path.service_slug, ServiceClaimId(path.claim_id), call.actor)
    return NO_BODY


_wanted = taken(NewServiceClaim, ServiceClaim)
_change = taken(ServiceClaimPatch, ServiceClaimChange)
_record = shown(ConfiguredClaim, ServiceClaimRecord, within=("claim",))
