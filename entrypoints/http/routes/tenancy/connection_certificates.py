"""Certificates of an organization's own provider that wait for an owner, and our former one."""

from typing import Annotated, Final

from core.domain.errors import BadRequest
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.upstream_providers import PROVIDER, UpstreamProviderPath, UpstreamProviderRecord, record_of

_TAGS: Final = ("provider-certificates",)
_IN_PERSON: Final = able(Capability.SETTINGS_MANAGE, impersonated=False)
_WAITING: Final = f"{PROVIDER}/certificate/waiting/{{fingerprint}}"


class WaitingCertificatePath(UpstreamProviderPath, frozen=True):
    fingerprint: Annotated[str, example("9f2c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80912")]
    """The certificate's SHA-256 fingerprint, as `waiting_certificates` has it."""


@endpoint.post(
    _WAITING,
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest,),
    tags=_TAGS,
    verb="upstream-provider approve-certificate",
)
async def approve_connection_certificate(
    call: Call[None, None, WaitingCertificatePath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Approve a new certificate of an upstream provider

    The certificate came with the provider's metadata, but not in a way that shows that it is the provider's. Compare its fingerprint with
    the one that the provider's administrator tells you over another way. It counts from then on, beside the known ones. You need a recent
    proof of who you are: of the second factor, if you have one.
    """
    path = call.path
    approved = await postern.tenancy.connection_refreshes.approve(
        call.caller, UpstreamProviderId(path.provider_id), path.fingerprint, call.actor
    )
    return record_of(postern, approved)


@endpoint.delete(
    _WAITING, caller=OWNER_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, tags=_TAGS, verb="upstream-provider decline-certificate"
)
async def decline_connection_certificate(
    call: Call[None, None, WaitingCertificatePath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Decline a new certificate of an upstream provider

    Nobody is asked about it again while the metadata contain it. You need a recent proof of who you are: of the second factor, if you have
    one.
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
    tags=_TAGS,
    verb="upstream-provider drop-certificate",
)
async def delete_former_certificate(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> UpstreamProviderRecord:
    """Delete our former key pair at an upstream provider

    After our key pair has changed, the former one still opens what the provider encrypts for it. Delete it when the provider has read our
    metadata again. You need a recent proof of who you are: of the second factor, if you have one.
    """
    dropped = await postern.tenancy.connections.drop_former(call.caller, UpstreamProviderId(call.path.provider_id), call.actor)
    return record_of(postern, dropped)
