"""Roles of a service: what people are in the application. A role has permissions of the service, and is assigned to people, to roles of the
organization and to teams.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from core.domain.changes import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, ServiceId, ServiceRoleId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.services.permissions import MOST_PERMISSIONS
from core.domain.services.services import Service
from core.domain.tenancy.roles import role_description, role_name
from core.frozen import Frozen

LONGEST_SLUG: Final = 50
MOST_ROLES: Final = 200
"""The limit for one service. A list shows all of them at once."""

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,48}[a-z0-9])?")


class ServiceRoleSettings(Frozen, kw_only=True):
    name: str
    description: str
    permissions: Sequence[str]
    """The keys of permissions of the service. Of a stored role they are sorted."""
    given_to_everybody: bool
    """Everybody who signs in to the service holds the role, without an assignment. It lets nobody in."""


class WantedServiceRole(ServiceRoleSettings, kw_only=True):
    slug: str


class ServiceRoleChange(RecordChange, kw_only=True):
    name: str | Unchanged = UNCHANGED
    description: str | Unchanged = UNCHANGED
    permissions: Sequence[str] | Unchanged = UNCHANGED
    given_to_everybody: bool | Unchanged = UNCHANGED


class ServiceRole(ServiceRoleSettings, kw_only=True):
    """`slug` is the role's name in tokens. It never changes, and the service never gives it to another role."""

    id: ServiceRoleId
    organization: OrganizationId
    service: ServiceId
    slug: str
    created_at: datetime
    updated_at: datetime


def service_role_slug(text: str) -> str:
    """The slug of a new role. Raises `BadRequest`."""
    if not _SLUG.fullmatch(text):
        raise BadRequest(
            f"slug: 1 to {LONGEST_SLUG} of a-z, 0-9, - and _, with a letter or digit at both ends",
            words="short_name_malformed",
            values={"most": LONGEST_SLUG},
        )
    return text


def role_permissions(keys: Collection[str]) -> tuple[str, ...]:
    """The keys as a role has them. Raises `BadRequest` for more of them than a service can have."""
    if len(keys) > MOST_PERMISSIONS:
        raise BadRequest(f"permissions: at most {MOST_PERMISSIONS}", words="field_list", values={"most": MOST_PERMISSIONS})
    return tuple(sorted(set(keys)))


_CHECKS: Final[Checks] = {
    "name": role_name,
    "description": role_description,
    "permissions": role_permissions,
    "given_to_everybody": bool,
}


def stored_role(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they are stored. Raises `BadRequest`."""
    return checked(settings, _CHECKS)


def require_known(unknown: Collection[str]) -> None:
    """Raises `BadRequest` when a role names permissions that the service does not have."""
    if unknown:
        raise BadRequest(
            f"permissions: the service has no permission {', '.join(sorted(unknown)[:_MOST_NAMED])}",
            words="permissions_unknown",
            values={"names": ", ".join(sorted(unknown)[:_MOST_NAMED])},
        )


def require_room(count: int) -> None:
    """Called before a role is added to a service that has `count`. Raises `BadRequest`."""
    if count >= MOST_ROLES:
        raise BadRequest(f"A service has at most {MOST_ROLES} roles: delete one first", words="limit_reached", values={"most": MOST_ROLES})


_MOST_NAMED: Final = 10


def service_role_created(role: ServiceRole, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {
        "name": role.name,
        "permissions": list(role.permissions),
        "given_to_everybody": role.given_to_everybody,
    }
    return _event("service.role.created", role, service, actor, details)


def service_role_updated(before: ServiceRole, after: ServiceRole, service: Service, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details: dict[str, Json] = {}
    if before.name != after.name:
        details |= {"old_name": before.name, "name": after.name}
    if before.description != after.description:
        details["description_changed"] = True
    if before.permissions != after.permissions:
        details |= {
            "granted": [key for key in after.permissions if key not in before.permissions],
            "revoked": [key for key in before.permissions if key not in after.permissions],
        }
    if before.given_to_everybody is not after.given_to_everybody:
        details["given_to_everybody"] = after.given_to_everybody
    return _event("service.role.updated", after, service, actor, details)


def service_role_deleted(role: ServiceRole, service: Service, actor: Actor, assignments: int) -> Event:
    """`assignments` is the number of those that ended with the role."""
    return _event("service.role.deleted", role, service, actor, {"name": role.name, "assignments": assignments})


def _event(name: str, role: ServiceRole, service: Service, actor: Actor, details: Mapping[str, Json]) -> Event:
    named: Mapping[str, Json] = {"service_slug": service.slug, "role_slug": role.slug}
    return Event(name, actor, Target("service", str(service.id)), service.organization, {**named, **details})
