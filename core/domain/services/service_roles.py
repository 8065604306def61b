"""Roles and permissions of an application, and the assignments of its roles."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden
from core.domain.formats import Json
from core.domain.identifiers import AssignmentId, OrganizationId, RoleId, ServiceId, ServicePermissionId, ServiceRoleId, UserId
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.services.services import Service
from core.domain.tenancy.roles import role_description, role_name
from core.frozen import Frozen

LONGEST_PERMISSION_KEY: Final = 80
MOST_PERMISSIONS: Final = 1000
"""The limit for one service. A list shows all of them at once."""

_KEY: Final = re.compile(r"[a-z0-9_.:-]{1,80}")


class ServicePermission(Frozen):
    """A permission, by which an application asks what a user may do in it. Roles of the application have permissions, and users hold roles.
    Postern only discloses permissions. `key` is the permission's name in tokens. It never changes, and the application never gives it to
    another permission.
    """

    id: ServicePermissionId
    service: ServiceId
    key: str
    description: str
    created_at: datetime


def permission_key(text: str) -> str:
    """The key of a new permission. Raises `BadRequest`."""
    if not _KEY.fullmatch(text):
        raise BadRequest(
            f"key: 1 to {LONGEST_PERMISSION_KEY} of a-z, 0-9, _, ., : and -",
            words="permission_key_malformed",
            values={"most": LONGEST_PERMISSION_KEY},
        )
    return text


def require_room_for_permission(count: int) -> None:
    """Called before a permission is added to a service that has `count`. Raises `BadRequest`."""
    if count >= MOST_PERMISSIONS:
        raise BadRequest(
            f"A service has at most {MOST_PERMISSIONS} permissions: delete one first",
            words="limit_reached",
            values={"most": MOST_PERMISSIONS},
        )


def permission_created(permission: ServicePermission, service: Service, actor: Actor) -> Event:
    return _event_permission("service.permission.created", permission, service, actor, {"description": permission.description})


def permission_updated(before: ServicePermission, after: ServicePermission, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {"old_description": before.description, "description": after.description}
    return _event_permission("service.permission.updated", after, service, actor, details)


def permission_deleted(permission: ServicePermission, service: Service, actor: Actor) -> Event:
    return _event_permission("service.permission.deleted", permission, service, actor, {"description": permission.description})


def _event_permission(name: str, permission: ServicePermission, service: Service, actor: Actor, details: Mapping[str, Json]) -> Event:
    named: Mapping[str, Json] = {"service_slug": service.slug, "permission": permission.key}
    return Event(name, actor, Target("service", str(service.id)), service.organization, {**named, **details})


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
    """A role of an application. It has permissions, and is assigned to users, to roles of the organization and to teams. `slug` is the
    role's name in tokens. It never changes, and the application never gives it to another role.
    """

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


CHECKS: Final[Checks] = {
    "name": role_name,
    "description": role_description,
    "permissions": role_permissions,
    "given_to_everybody": bool,
}


def stored_role(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they are stored. Raises `BadRequest`."""
    return checked(settings, CHECKS)


def require_known(unknown: Collection[str]) -> None:
    """Raises `BadRequest` when a role names permissions that the service does not have."""
    if unknown:
        raise BadRequest(
            f"permissions: the service has no permission {', '.join(sorted(unknown)[:_MOST_NAMED])}",
            words="permissions_unknown",
            values={"names": ", ".join(sorted(unknown)[:_MOST_NAMED])},
        )


def require_room_for_role(count: int) -> None:
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


# The relation of those to whom a role is assigned, to the role.
HOLDER: Final = "holder"


class ToPerson(Frozen):
    """The assignment of one person, who is a member of the organization or an end user of the service."""

    user: UserId
    email: str = ""
    """The person's address, in lists."""


class ToRole(Frozen):
    """The assignment of everybody who has exactly this role of the organization, by membership or by a team that carries it. `id` is None
    for a built-in role.
    """

    slug: str
    id: RoleId | None
    is_carried_by_directory: bool = False
    """A team that a directory fills carries the role."""


class ToTeam(Frozen):
    """The assignment of all members of a team."""

    id: UUID
    slug: str
    name: str
    is_filled_by_directory: bool = False


Assignee = ToPerson | ToRole | ToTeam


class Assignment(Frozen):
    """A role of an application that is assigned to a user, to all users with a role of the organization, or to the members of a team."""

    id: AssignmentId
    service: ServiceId
    role: ServiceRoleId
    role_slug: str
    to: Assignee
    created_at: datetime


class WantedAssignee(Frozen):
    """The person, the role of the organization or the team that a caller names; the other two are None."""

    user: UserId | None = None
    role: str | None = None
    team: str | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.user, self.role, self.team)) != 1:
            raise BadRequest("Send exactly one of user_id, organization_role and team", words="assign_to_one")


class AssignmentPage(Frozen):
    """`next` is None on the last page. Otherwise it is the assignment after which the next page begins."""

    assignments: Sequence[Assignment]
    next: AssignmentId | None


def needs_owner(to: Assignee) -> bool:
    """Whether a directory decides who gets what is assigned so: it fills the team, or a team that carries the organization's role."""
    match to:
        case ToTeam():
            return to.is_filled_by_directory
        case ToRole():
            return to.is_carried_by_directory
        case _:
            return False


def require_may_assign(to: Assignee, *, is_owner: bool, is_proved: bool) -> None:
    """An owner alone lets a directory decide who holds a role, and with a fresh proof. Raises `Forbidden`."""
    if needs_owner(to) and not (is_owner and is_proved):
        raise Forbidden(
            "A directory decides who is in this team, or in a team that has this role of the organization. Only the owner of the "
            "organization can assign a role to it, after verifying their identity again",
            words="owner_with_proof",
        )


def assignment_added(assignment: Assignment, service: Service, actor: Actor) -> Event:
    return _event_assignment("service.assignment.added", assignment, service, actor)


def assignment_removed(assignment: Assignment, service: Service, actor: Actor) -> Event:
    return _event_assignment("service.assignment.removed", assignment, service, actor)


def _event_assignment(name: str, assignment: Assignment, service: Service, actor: Actor) -> Event:
    details: Mapping[str, Json] = {
        "service_slug": service.slug,
        "service_name": service.name,
        "role_slug": assignment.role_slug,
        "assignment_id": str(assignment.id),
        **named(assignment.to),
    }
    to = assignment.to
    target = Target("user", str(to.user)) if isinstance(to, ToPerson) else Target("service", str(service.id))
    return Event(name, actor, target, service.organization, details)


def named(to: Assignee) -> Mapping[str, Json]:
    """Whom the assignment names, in an event."""
    match to:
        case ToPerson(user):
            return {"user_id": str(user)}
        case ToRole(slug):
            return {"organization_role": slug}
        case _:
            return {"team": to.slug, "team_name": to.name}
