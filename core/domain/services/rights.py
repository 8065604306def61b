"""What a user may do in an application by the application's roles, and access evaluations of the AuthZEN API."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, Self
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import AssignmentId, UserId
from core.domain.services.api_keys import KeyHolder
from core.frozen import Frozen


class ServiceRights(Frozen):
    """Postern discloses the rights, and the application decides by them.

    The slugs of the roles that a person holds in a service, and the keys of the permissions that these roles have. Both are sorted.
    """

    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    @classmethod
    def by(cls, roles: Mapping[str, Collection[str]]) -> Self:
        """The rights that come with these roles: the permissions of each by its slug."""
        return cls(tuple(sorted(roles)), tuple(sorted(frozenset().union(*roles.values()))))


class GivenBy(Frozen):
    """The assignment that gives a person a role: the person's own, or that of a team or of a role of the organization, by its slug."""

    assignment: AssignmentId
    team: str | None = None
    organization_role: str | None = None


class HeldRole(Frozen, kw_only=True):
    """A role of a service that a person holds, and all that gives it to the person. Without an assignment, everybody has the role."""

    slug: str
    permissions: Sequence[str]
    given_to_everybody: bool
    given_by: Sequence[GivenBy]


class BlockReason(StrEnum):
    """Why a user has no permissions in a service, whatever their roles."""

    DEACTIVATED = "deactivated"
    NOT_ADMITTED = "not_admitted"


class ExplainedRights(Frozen, kw_only=True):
    """A user of a service, with all that gives the person rights there. Roles and teams are sorted by their slugs."""

    barred: BlockReason | None
    held: Sequence[HeldRole]
    teams: Sequence[str]

    @property
    def roles(self) -> Sequence[HeldRole]:
        """The roles that count: none while the person is barred."""
        return () if self.barred else self.held

    @property
    def rights(self) -> ServiceRights:
        return ServiceRights.by({role.slug: role.permissions for role in self.roles})


class RightsReason(StrEnum):
    """Why a user has a permission in a service, or lacks it."""

    ROLE = "role"
    UNKNOWN_PERMISSION = "unknown_permission"
    DEACTIVATED = "deactivated"
    NOT_ADMITTED = "not_admitted"
    NO_ROLE = "no_role"


class RightsVerdict(Frozen):
    """Whether a person has a permission. `role` is one that gives it, and `by` one assignment of that role; both are None where there are
    none.
    """

    reason: RightsReason
    role: str | None = None
    by: GivenBy | None = None

    @property
    def is_allowed(self) -> bool:
        return self.reason is RightsReason.ROLE


def verdict(explained: ExplainedRights, permission: str, *, is_known: bool) -> RightsVerdict:
    """`is_known` says whether the service has this permission."""
    if not is_known:
        return RightsVerdict(RightsReason.UNKNOWN_PERMISSION)
    if explained.barred is not None:
        return RightsVerdict(RightsReason(explained.barred.value))
    giving = [role for role in explained.roles if permission in role.permissions]
    if not giving:
        return RightsVerdict(RightsReason.NO_ROLE)
    # A role that somebody has assigned says more than one that everybody has.
    role = next((role for role in giving if role.given_by), giving[0])
    return RightsVerdict(RightsReason.ROLE, role.slug, role.given_by[0] if role.given_by else None)


SUBJECT_TYPE: Final = "user"
RESOURCE_TYPE: Final = "service"
MOST_EVALUATIONS: Final = 50
MOST_SUBJECTS: Final = 50
"""The most users in one answer to a search."""


class Semantic(StrEnum):
    """When a batch of evaluations stops."""

    EXECUTE_ALL = "execute_all"
    DENY_ON_FIRST_DENY = "deny_on_first_deny"
    PERMIT_ON_FIRST_PERMIT = "permit_on_first_permit"


class AccessQuestion(Frozen, kw_only=True):
    """An access evaluation (OpenID AuthZEN Authorization API 1.0): a question of an application's servers in a standard form. The subject
    is a user of the application, the action is one of the application's permissions, and the resource is the application itself: only the
    application knows its objects.
    """

    subject_type: str
    subject_id: str
    action: str
    resource_type: str
    resource_id: str


class IncompleteQuestion(Frozen):
    """One of several questions that lacks something. It gets an answer of its own, and the others get theirs (section 7.2.1)."""

    missing: str
    """The place of what is missing."""


class AccessDecision(Frozen):
    """`context` says why, with the assignment that decides."""

    decision: bool
    context: Mapping[str, Json]


class FoundSubjects(Frozen):
    """Users who hold a permission. `after` continues the search; None when every user was looked at."""

    users: Sequence[UserId]
    after: UserId | None


def is_about(holder: KeyHolder, resource_type: str, resource_id: str) -> bool:
    """Whether the resource is the service whose key asks, by its slug or its id."""
    return resource_type == RESOURCE_TYPE and resource_id in {holder.service_slug, str(holder.service)}


def subject_of(subject_type: str, subject_id: str) -> UserId | None:
    """None for whatever is no user."""
    try:
        return UserId(UUID(subject_id)) if subject_type == SUBJECT_TYPE else None
    except ValueError:
        return None


def decided(question: AccessQuestion, holder: KeyHolder, asked: tuple[ExplainedRights, Collection[str]] | None) -> AccessDecision:
    """`asked` has the user's rights, and the permissions that exist. It is None for somebody who is not a user of the service."""
    if not is_about(holder, question.resource_type, question.resource_id):
        return AccessDecision(False, {"reason": "unknown_resource"})
    if asked is None:
        return AccessDecision(False, {"reason": "unknown_subject"})
    explained, permissions = asked
    found = verdict(explained, question.action, is_known=question.action in permissions)
    return AccessDecision(found.is_allowed, _context(found))


def undecided(question: IncompleteQuestion) -> AccessDecision:
    """The decision is no, and says that the question is the reason."""
    return AccessDecision(False, {"reason": "incomplete", "error": {"status": 400, "message": f"{question.missing}: is missing"}})


def _context(found: RightsVerdict) -> Mapping[str, Json]:
    said: dict[str, Json] = {"reason": found.reason.value}
    if found.role is not None:
        said["role"] = found.role
    if found.by is not None:
        by = found.by
        told = {"assignment_id": str(by.assignment), "team": by.team, "organization_role": by.organization_role}
        said |= {name: value for name, value in told.items() if value is not None}
    return said


def ends(semantic: Semantic, decision: AccessDecision) -> bool:
    """Whether no evaluation after this one is made."""
    if semantic is Semantic.EXECUTE_ALL:
        return False
    return decision.decision is (semantic is Semantic.PERMIT_ON_FIRST_PERMIT)


def continued(token: str) -> UserId | None:
    """The user after whom a search goes on. Raises `BadRequest`."""
    try:
        return UserId(UUID(token)) if token else None
    except ValueError:
        raise BadRequest("page.token: send the next_token of the answer before") from None
