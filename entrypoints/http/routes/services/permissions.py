"""The permissions of a service: the words by which its application asks what people may do in it."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.services.service_roles import ServicePermission
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, PermissionKey, RoleDescription, ServicePath, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("rights",)
_PERMISSIONS = "/api/organizations/{org_slug}/services/{service_slug}/permissions"
_PERMISSION = "/api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}"


class ServicePermissionPath(ServicePath, frozen=True):
    permission_key: Annotated[str, example("invoices:write")]
    """The permission's key."""


class NewServicePermission(msgspec.Struct, frozen=True):
    """A permission of the service."""

    key: Annotated[PermissionKey, example("invoices:write")]
    """1 to 80 of a-z, 0-9, _, ., : and -. The key never changes, and no other permission of the service ever gets it."""
    description: Annotated[RoleDescription, example("Write and send invoices")] = ""
    """Up to 500 characters."""


class ServicePermissionPatch(msgspec.Struct, frozen=True):
    """A change of a permission."""

    description: Annotated[RoleDescription, example("Write and send invoices")]
    """Up to 500 characters."""


class ServicePermissionRecord(msgspec.Struct, frozen=True):
    """A permission of the service."""

    id: Id
    key: Annotated[str, example("invoices:write")]
    """The permission's name in tokens. It never changes."""
    description: Annotated[str, example("Write and send invoices")]
    """A description of the permission."""
    created_at: CreatedAt


@endpoint.get(_PERMISSIONS, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def list_service_permissions(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ServicePermissionRecord]:
    """List the permissions of a service, by key

    You get all of them; a service has at most 1000.
    """
    return [_record(one) for one in await postern.services.permissions.list(call.caller, call.path.service_slug)]


@endpoint.post(
    _PERMISSIONS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_service_permission(
    call: Call[NewServicePermission, None, ServicePath, Member], postern: Postern
) -> ServicePermissionRecord:
    """Add a permission to a service

    Nobody has the permission yet: give it to a role of the service. Postern does nothing with a permission but tell it to the application.
    """
    body = call.body
    return _record(await postern.services.permissions.create(call.caller, call.path.service_slug, body.key, body.description, call.actor))


@endpoint.patch(
    _PERMISSION, caller=able(Capability.SERVICES_MANAGE, impersonated=False), keys=True, limit=UNLIMITED, refuses=(BadRequest,), tags=_TAGS
)
async def change_service_permission(
    call: Call[ServicePermissionPatch, None, ServicePermissionPath, Member], postern: Postern
) -> ServicePermissionRecord:
    """Describe a permission anew

    The key of a permission never changes, so applications go on to know it.
    """
    path = call.path
    return _record(
        await postern.services.permissions.describe(call.caller, path.service_slug, path.permission_key, call.body.description, call.actor)
    )


@endpoint.delete(
    _PERMISSION, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, limit=UNLIMITED, status=204, tags=_TAGS
)
async def delete_service_permission(call: Call[None, None, ServicePermissionPath, Member], postern: Postern) -> NoBody:
    """Delete a permission

    The service's roles lose it, and an application that asks is told so from the next request on. Its key is not used again.
    """
    path = call.path
    await postern.services.permissions.delete(call.caller, path.service_slug, path.permission_key, call.actor)
    return NO_BODY


def _record(permission: ServicePermission) -> ServicePermissionRecord:
    return ServicePermissionRecord(permission.id, permission.key, permission.description, permission.created_at)
