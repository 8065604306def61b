"""Permissions: the words by which an application asks what somebody may do in it. Roles of the service have permissions, and people hold
roles. Postern itself does nothing with a permission but tell it.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ServiceId, ServicePermissionId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.services.services import Service
from core.frozen import Frozen

LONGEST_KEY: Final = 80
MOST_PERMISSIONS: Final = 1000
"""The limit for one service. A list shows all of them at once."""

_KEY: Final = re.compile(r"[a-z0-9_.:-]{1,80}")


class ServicePermission(Frozen):
    """`key` is the permission's name in tokens. It never changes, and the service never gives it to another permission."""

    id: ServicePermissionId
    service: ServiceId
    key: str
    description: str
    created_at: datetime


def permission_key(text: str) -> str:
    """The key of a new permission. Raises `BadRequest`."""
    if not _KEY.fullmatch(text):
        raise BadRequest(
            f"key: 1 to {LONGEST_KEY} of a-z, 0-9, _, ., : and -", words="permission_key_malformed", values={"most": LONGEST_KEY}
        )
    return text


def require_room(count: int) -> None:
    """Called before a permission is added to a service that has `count`. Raises `BadRequest`."""
    if count >= MOST_PERMISSIONS:
        raise BadRequest(
            f"A service has at most {MOST_PERMISSIONS} permissions: delete one first",
            words="limit_reached",
            values={"most": MOST_PERMISSIONS},
        )


def permission_created(permission: ServicePermission, service: Service, actor: Actor) -> Event:
    return _event("service.permission.created", permission, service, actor, {"description": permission.description})


def permission_updated(before: ServicePermission, after: ServicePermission, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {"old_description": before.description, "description": after.description}
    return _event("service.permission.updated", after, service, actor, details)


def permission_deleted(permission: ServicePermission, service: Service, actor: Actor) -> Event:
    return _event("service.permission.deleted", permission, service, actor, {"description": permission.description})


def _event(name: str, permission: ServicePermission, service: Service, actor: Actor, details: Mapping[str, Json]) -> Event:
    named: Mapping[str, Json] = {"service_slug": service.slug, "permission": permission.key}
    return Event(name, actor, Target("service", str(service.id)), service.organization, {**named, **details})
