"""Access evaluations (OpenID AuthZEN Authorization API 1.0): questions of a service's servers in a standard form. The subject is a user of
the service, the action is one of the service's permissions, and the resource is the service itself: what its objects are, the application
knows alone.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.json import Json
from core.domain.services.api_keys import KeyHolder
from core.domain.services.rights import ExplainedRights, RightsVerdict, verdict
from core.frozen import Frozen

SUBJECT_TYPE: Final = "user"
RESOURCE_TYPE: Final = "service"
MOST_EVALUATIONS: Final = 50
MOST_SUBJECTS: Final = 50
"""The most users in one answer to a search."""


class Semantic(StrEnum):
    """When several evaluations end."""

    EXECUTE_ALL = "execute_all"
    DENY_ON_FIRST_DENY = "deny_on_first_deny"
    PERMIT_ON_FIRST_PERMIT = "permit_on_first_permit"


class AccessQuestion(Frozen, kw_only=True):
    """May this subject do this with this resource?"""

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
