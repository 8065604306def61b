"""The management keys of the platform."""

from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ManagementKeyId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.management_keys import USUAL_LIFE, PlatformCapability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Name, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.management_keys import (
    AdoptedManagementKey,
    CreatedManagementKey,
    Days,
    ManagementKeyList,
    ManagementKeyRecord,
    adopted_management_key,
    created_management_key,
    management_key_record,
)

_TAGS = ("management-keys",)
_KEYS = "/api/platform/management-keys"
_KEY = f"{_KEYS}/{{key_id}}"


class PlatformKeyPath(msgspec.Struct, frozen=True):
    key_id: UUID
    """The management API key's ID."""


class NewPlatformKey(msgspec.Struct, frozen=True, kw_only=True):
    """The name and the capabilities of a new management API key of the platform."""

    name: Annotated[Name, example("Onboarding")]
    """The key's name. The installation's audit log shows it with every action of the key."""
    capabilities: Annotated[tuple[PlatformCapability, ...], msgspec.Meta(max_length=100), example(["organizations.view"])]
    """The capabilities of the key."""
    expires_in_days: Days = USUAL_LIFE
    """The number of days until the key expires, 1 to 365."""


@endpoint.post(_KEYS, caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_platform_key(call: Call[NewPlatformKey], postern: Postern) -> CreatedManagementKey:
    """Create a management API key of the platform

    The key is for a script that manages the installation. Send it as a Bearer token. The key is shown only once. It works while you are a
    platform owner, or once another platform owner has adopted it. It gives no access to organizations. Requires a recent sign-in or
    reauthentication.
    """
    body = call.body
    made = await postern.tenancy.management_keys.create_for_platform(
        call.caller, call.actor, name=body.name, capabilities=body.capabilities, expires_in_days=body.expires_in_days
    )
    return created_management_key(made.key, made.text.reveal())


@endpoint.get(_KEYS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_platform_keys(_call: Call, postern: Postern) -> ManagementKeyList:
    """List the management API keys of the platform

    Return the keys, the newest first. The keys themselves are never shown. An expired key is listed for 30 days.
    """
    keys = await postern.tenancy.management_keys.list(None)
    return ManagementKeyList([management_key_record(key) for key in keys], len(keys))


@endpoint.get(_KEY, caller=PLATFORM_OWNER, tags=_TAGS)
async def get_platform_key(call: Call[None, None, PlatformKeyPath], postern: Postern) -> ManagementKeyRecord:
    """Get a management API key of the platform

    The key itself is only in the response that created it.
    """
    key, _ = await postern.tenancy.management_keys.get(None, ManagementKeyId(call.path.key_id))
    return management_key_record(key)


@endpoint.delete(_KEY, caller=PLATFORM_OWNER, status=204, tags=_TAGS)
async def end_platform_key(call: Call[None, None, PlatformKeyPath], postern: Postern) -> NoBody:
    """Revoke a management API key of the platform

    The key stops working with the next request. This cannot be undone.
    """
    await postern.tenancy.management_keys.end_for_platform(call.caller, ManagementKeyId(call.path.key_id), call.actor)
    return NO_BODY


@endpoint.post(f"{_KEY}/adopt", caller=PLATFORM_OWNER, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, tags=_TAGS)
async def adopt_platform_key(call: Call[None, None, PlatformKeyPath], postern: Postern) -> AdoptedManagementKey:
    """Adopt a management API key of the platform

    The key no longer depends on its creator. It keeps its capabilities until it expires or is revoked. The response has a new key. The
    previous one works for 24 hours, as long as the person who created it, or adopted it before you, is still a platform owner. Otherwise it
    stops working at once. Requires a recent sign-in or reauthentication.
    """
    key, text = await postern.tenancy.management_keys.adopt_for_platform(call.caller, ManagementKeyId(call.path.key_id), call.actor)
    return adopted_management_key(key, text)
