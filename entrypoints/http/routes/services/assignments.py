"""Assignments: to whom the roles of a service are assigned."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import AssignmentId, UserId
from core.domain.identity.proofs import StepUp
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.services.service_roles import Assignment, ToPerson, ToRole, ToTeam, WantedAssignee
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, ServicePath, Slug, UserUuid, example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.machinery.step_up import require_fresh_proof

_TAGS = ("rights",)
_ASSIGNMENTS = "/api/organizations/{org_slug}/services/{service_slug}/assignments"


class AssignmentPath(ServicePath, frozen=True):
    assignment_id: UUID
    """The assignment's id."""


class AssignmentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the list."""

    role: Annotated[Slug, example("editor")] | None = None
    """Only assignments of this role of the service."""
    user_id: UserUuid | None = None
    """Only assignments to this person, not to the person's teams and roles."""
    after: UUID | None = None
    """The `next` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)] = DEFAULT_PAGE_LIMIT
    """The largest number of entries in the answer. A number above the maximum is refused."""


class NewAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """A role of the service, and exactly one of a person, a role of the organization and a team."""

    role: Annotated[Slug, example("editor")]
    """The slug of the service's role."""
    user_id: UserUuid | None = None
    """A member of the organization, or a user of the service."""
    organization_role: Annotated[Slug, example("admin")] | None = None
    """The slug of a role of the organization: everybody who has exactly this role, as a member or by a team, holds the service's role."""
    team: Annotated[Slug, example("support")] | None = None
    """The slug of a team: everybody in it holds the service's role."""


class AssignmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An assignment of a role of the service. One of `user_id`, `organization_role` and `team` is set, and the others are null."""

    id: Id
    role: Annotated[str, example("editor")]
    """The slug of the service's role."""
    user_id: UUID | None = None
    """The person who holds the role."""
    email: Annotated[str | None, example("ada@example.org")] = None
    """The person's address, in lists, if you may see end users."""
    organization_role: Annotated[str | None, example("admin")] = None
    """The slug of the organization's role whose people hold the role."""
    team: Annotated[str | None, example("support")] = None
    """The slug of the team whose members hold the role."""
    created_at: CreatedAt


class AssignmentList(msgspec.Struct, frozen=True):
    """One page of assignments."""

    assignments: Sequence[AssignmentRecord]
    """The assignments on this page, the oldest first."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


@endpoint.get(_ASSIGNMENTS, caller=able(Capability.SERVICES_MANAGE, impersonated=True), keys=True, tags=_TAGS)
async def list_assignments(call: Call[None, AssignmentsQuery, ServicePath, Member], postern: Postern) -> AssignmentList:
    """List the assignments of a service's roles, the oldest first

    Each gives the role to a person, to a role of the organization, or to a team. Filter by `role` or `user_id`.
    """
    query = call.query
    page = await postern.services.assignments.list(
        call.caller,
        call.path.service_slug,
        role_slug=query.role,
        user=None if query.user_id is None else UserId(query.user_id),
        after=None if query.after is None else AssignmentId(query.after),
        limit=query.limit,
    )
    return AssignmentList([_record(one, named=call.caller.may(Capability.END_USERS_VIEW)) for one in page.assignments], page.next)


@endpoint.post(
    _ASSIGNMENTS,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_assignment(call: Call[NewAssignment, None, ServicePath, Member], postern: Postern) -> AssignmentRecord:
    """Assign a role of a service

    To a person, to everybody with a role of the organization, or to a team. What was assigned to a person ends with the membership or with
    the use of the service. Only the owner of the organization may assign a role to a team that a directory fills, or to a role that such a
    team has, and needs a recent proof of who they are.
    """
    body = call.body
    wanted = WantedAssignee(None if body.user_id is None else UserId(body.user_id), body.organization_role, body.team)
    is_proved = await postern.services.assignments.needs_proof(call.caller, wanted)
    if is_proved:
        await require_fresh_proof(call.request, postern, StepUp.ACCOUNT)
    return _record(
        await postern.services.assignments.add(call.caller, call.path.service_slug, body.role, wanted, call.actor, is_proved=is_proved)
    )


@endpoint.delete(
    f"{_ASSIGNMENTS}/{{assignment_id}}",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    limit=UNLIMITED,
    status=204,
    tags=_TAGS,
)
async def delete_assignment(call: Call[None, None, AssignmentPath, Member], postern: Postern) -> NoBody:
    """End an assignment

    It counts from the next request on. Of a person to whom no role of the service is assigned any more, a service with the policy
    `assigned` refuses every request; if the assignment was the person's own, their sessions in the service end.
    """
    path = call.path
    await postern.services.assignments.remove(call.caller, path.service_slug, AssignmentId(path.assignment_id), call.actor)
    return NO_BODY


def _record(assignment: Assignment, *, named: bool = False) -> AssignmentRecord:
    to = assignment.to
    return AssignmentRecord(
        id=assignment.id,
        role=assignment.role_slug,
        user_id=to.user if isinstance(to, ToPerson) else None,
        email=(to.email or None) if named and isinstance(to, ToPerson) else None,
        organization_role=to.slug if isinstance(to, ToRole) else None,
        team=to.slug if isinstance(to, ToTeam) else None,
        created_at=assignment.created_at,
    )
