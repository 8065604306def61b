"""Assignments: a role of a service is assigned to a person, to all people with a role of the organization, or to the members of a team."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden
from core.domain.identifiers import AssignmentId, RoleId, ServiceId, ServiceRoleId, UserId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.services.services import Service
from core.frozen import Frozen

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
    """Who holds a role of a service."""

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
            "A directory decides who is in this team, or in a team that has this role of the organization. So only the owner of the"
            " organization assigns a role to it, after a fresh proof",
            words="owner_with_proof",
        )


def assignment_added(assignment: Assignment, service: Service, actor: Actor) -> Event:
    return _event("service.assignment.added", assignment, service, actor)


def assignment_removed(assignment: Assignment, service: Service, actor: Actor) -> Event:
    return _event("service.assignment.removed", assignment, service, actor)


def _event(name: str, assignment: Assignment, service: Service, actor: Actor) -> Event:
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
