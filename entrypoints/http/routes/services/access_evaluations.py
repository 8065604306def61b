"""Access evaluations in the form of OpenID AuthZEN (Authorization API 1.0), for a service's own servers, gateways and MCP servers that
speak it. `/api/service/check` asks the same in our own words.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Never

import msgspec

from core.domain.errors import BadRequest, NotImplementedHere
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.rights import (
    MOST_EVALUATIONS,
    RESOURCE_TYPE,
    SUBJECT_TYPE,
    AccessDecision,
    AccessQuestion,
    IncompleteQuestion,
    Semantic,
    continued,
)
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Origins
from entrypoints.http.machinery.callers import ANYONE, key, key_by_either_header
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
SUBJECTS: Final = "/access/v1/search/subject"
ACTIONS: Final = "/access/v1/search/action"
RESOURCES: Final = "/access/v1/search/resource"
_LONGEST: Final = 200

_Word = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
_Member = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST)]
_USER: Final = "0199d3a0-0000-7000-8000-000000000002"


class AccessSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject: a user of the service."""

    type: Annotated[_Member, example(SUBJECT_TYPE)]
    """`user`. Subjects of other types have no permissions."""
    id: Annotated[_Member, example(_USER)]
    """The user's ID."""


class AccessSubjectKind(msgspec.Struct, frozen=True, kw_only=True):
    """The type of the subjects to search: users of the service."""

    type: Annotated[_Member, example(SUBJECT_TYPE)]
    """`user`. Subjects of other types have no permissions."""


class AccessAction(msgspec.Struct, frozen=True, kw_only=True):
    """The action: a permission of the service."""

    name: Annotated[_Member, example("invoices:write")]
    """The key of the permission."""


class AccessResource(msgspec.Struct, frozen=True, kw_only=True):
    """The resource: the service that the API key belongs to."""

    type: Annotated[_Member, example(RESOURCE_TYPE)]
    """`service`. Postern does not know the service's own objects."""
    id: Annotated[_Member, example("billing")]
    """The service's slug or ID."""


class AccessEvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An access request: can the subject perform the action on the resource? Other members, such as `context` and `properties`, are
    ignored.
    """

    subject: AccessSubject
    """The subject."""
    action: AccessAction
    """The action."""
    resource: AccessResource
    """The resource."""


class AccessEvaluationPart(msgspec.Struct, frozen=True, kw_only=True):
    """One of several access requests. Omitted members default to those of the whole request."""

    subject: AccessSubject | None = None
    """The subject. Defaults to the subject of the whole request."""
    action: AccessAction | None = None
    """The action. Defaults to the action of the whole request."""
    resource: AccessResource | None = None
    """The resource. Defaults to the resource of the whole request."""


class AccessEvaluationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How several access requests are evaluated."""

    evaluations_semantic: Semantic = Semantic.EXECUTE_ALL
    """`execute_all` evaluates all access requests. The others stop at the first denial, or at the first permit."""


class AccessEvaluationsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Several access requests. If `evaluations` is empty, the request is a single access request, and the response a single decision. Each
    access request needs a subject, an action and a resource, its own or that of the whole request. If one is missing, this decision is
    false, and the other access requests are still evaluated.
    """

    subject: AccessSubject | None = None
    """The default subject of the access requests."""
    action: AccessAction | None = None
    """The default action of the access requests."""
    resource: AccessResource | None = None
    """The default resource of the access requests."""
    evaluations: Annotated[
        Sequence[AccessEvaluationPart], msgspec.Meta(max_length=MOST_EVALUATIONS), example([{"action": {"name": "invoices:write"}}])
    ] = ()
    """The access requests."""
    options: AccessEvaluationOptions = AccessEvaluationOptions()
    """The options for the evaluation."""

    def question(self) -> AccessQuestion:
        """Of a request without `evaluations`. Raises `BadRequest`."""
        return _question(self.subject, self.action, self.resource)

    def questions(self) -> Sequence[AccessQuestion | IncompleteQuestion]:
        return [
            _read(one.subject or self.subject, one.action or self.action, one.resource or self.resource, f"evaluations[{number}].")
            for number, one in enumerate(self.evaluations)
        ]


class AccessEvaluation(msgspec.Struct, frozen=True):
    """A decision, and its reason."""

    decision: Annotated[bool, example(True)]
    """Whether access is permitted."""
    context: Annotated[Mapping[str, Any], example({"reason": "role", "role": "editor", "assignment_id": _USER})]
    """The reason. `reason` as in `POST /api/service/check`, or `unknown_subject`, `unknown_resource` or `incomplete`. Also the role and the
    assignment that determine the decision, and the `error` of an incomplete access request.
    """


class AccessEvaluations(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decisions, in the order of the access requests."""

    evaluations: Sequence[AccessEvaluation] | None = None
    """The decisions. Fewer than the access requests if the evaluation stopped at the first denial or permit."""
    decision: bool | None = None
    """The single decision, if the request had no `evaluations`."""
    context: Mapping[str, Any] | None = None
    """The reason for the single decision."""


class AccessPage(msgspec.Struct, frozen=True, kw_only=True):
    """The position where a search continues."""

    token: _Word = ""
    """The `next_token` of the previous response."""


class AccessSubjectSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for the users who can perform an action on the resource."""

    subject: AccessSubjectKind
    """The type of the subjects."""
    action: AccessAction
    """The action."""
    resource: AccessResource
    """The resource."""
    page: AccessPage = AccessPage()
    """The position where the search continues."""

    def question(self) -> AccessQuestion:
        return AccessQuestion(
            subject_type=self.subject.type,
            subject_id="",
            action=self.action.name,
            resource_type=self.resource.type,
            resource_id=self.resource.id,
        )


class AccessActionSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for the actions that the subject can perform on the resource."""

    subject: AccessSubject
    """The subject."""
    resource: AccessResource
    """The resource."""
    page: AccessPage = AccessPage()
    """The position where the search continues. Not needed: all results are on one page."""

    def question(self) -> AccessQuestion:
        return AccessQuestion(
            subject_type=self.subject.type,
            subject_id=self.subject.id,
            action="",
            resource_type=self.resource.type,
            resource_id=self.resource.id,
        )


class AccessResourceSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search for the resources that the subject can perform an action on."""

    subject: AccessSubject | None = None
    """The subject."""
    action: AccessAction | None = None
    """The action."""
    page: AccessPage = AccessPage()
    """The position where the search continues."""


class NextAccessPage(msgspec.Struct, frozen=True):
    """The position of the next page."""

    next_token: Annotated[str, example("")]
    """Send it as `page.token` to get the next page; empty on the last page."""


class FoundAccessSubject(msgspec.Struct, frozen=True):
    """A user who has the permission."""

    type: Annotated[str, example(SUBJECT_TYPE)]
    """Always `user`."""
    id: Annotated[str, example(_USER)]
    """The user's ID."""


class FoundAccessSubjects(msgspec.Struct, frozen=True):
    """One page of users who have the permission."""

    page: NextAccessPage
    """The position of the next page. It comes first, so that clients can read it before the results (section 8.3)."""
    results: Sequence[FoundAccessSubject]
    """The users, sorted by ID. A page can be empty even if further pages follow."""


class FoundAccessAction(msgspec.Struct, frozen=True):
    """A permission that the user has."""

    name: Annotated[str, example("invoices:write")]
    """The key of the permission."""


class FoundAccessActions(msgspec.Struct, frozen=True):
    """The permissions that the user has."""

    page: NextAccessPage
    """The position of the next page. There is none."""
    results: Sequence[FoundAccessAction]
    """The permissions, sorted, on one page."""


class AuthZenConfiguration(msgspec.Struct, frozen=True):
    """The URLs of the Authorization API."""

    policy_decision_point: str
    """The URL of the policy decision point: this installation."""
    access_evaluation_endpoint: str
    """The endpoint for a single access request."""
    access_evaluations_endpoint: str
    """The endpoint for several access requests."""
    search_subject_endpoint: str
    """The endpoint to search for users who have a permission."""
    search_action_endpoint: str
    """The endpoint to search for permissions of a user."""


_DECLARED: Final[Statement] = {
    "caller": key_by_either_header(Permission.READ_USERS),
    "limit": UNLIMITED,
    "tags": ("service-interface",),
}


@endpoint.get(
    "/.well-known/authzen-configuration",
    caller=ANYONE,
    limit=UNLIMITED,
    cache="public, max-age=300",
    origins=Origins.ALL,
    tags=("service-interface",),
)
def get_authzen_configuration(_call: Call, postern: Postern) -> AuthZenConfiguration:
    """Get the AuthZEN configuration

    Returns the URLs of the Authorization API (OpenID AuthZEN). Each of its requests needs an API key of a service. Send the key in the
    header `X-Api-Key` or as a bearer token in `Authorization`, but not in both. There is no search for resources.
    """
    at = postern.foundation.public_url
    return AuthZenConfiguration(at, at + EVALUATION, at + EVALUATIONS, at + SUBJECTS, at + ACTIONS)


@endpoint.post(EVALUATION, **_DECLARED)
async def check_access(call: Call[AccessEvaluationRequest, None, None, KeyHolder], postern: Postern) -> AccessEvaluation:
    """Evaluate an access request (AuthZEN)

    For an unknown user, another resource or an unknown action, the response is not an error: the decision is false. A request without a
    subject, an action or a resource, or with an incomplete one, is rejected. The decision is never older than the request.
    """
    (decision,) = await postern.services.rights.evaluate(call.caller, [_question(call.body.subject, call.body.action, call.body.resource)])
    return _answer(decision)


@endpoint.post(EVALUATIONS, **_DECLARED)
async def check_accesses(call: Call[AccessEvaluationsRequest, None, None, KeyHolder], postern: Postern) -> AccessEvaluations:
    """Evaluate several access requests (AuthZEN)

    If an access request lacks a subject, an action or a resource, its decision is false, and `context.error` names the missing part. If a
    subject, an action or a resource is incomplete, the whole request is rejected. Each user is looked up once.
    """
    body = call.body
    if not body.evaluations:
        (decision,) = await postern.services.rights.evaluate(call.caller, [body.question()])
        return AccessEvaluations(decision=decision.decision, context=decision.context)
    decisions = await postern.services.rights.evaluate(call.caller, body.questions(), body.options.evaluations_semantic)
    return AccessEvaluations([_answer(decision) for decision in decisions])


@endpoint.post(SUBJECTS, **_DECLARED)
async def search_access_subjects(call: Call[AccessSubjectSearch, None, None, KeyHolder], postern: Postern) -> FoundAccessSubjects:
    """Search users with a permission (AuthZEN)

    Each request examines the next 500 users of the service. For this reason, a page can have fewer results than the next one.
    """
    found = await postern.services.rights.subjects(call.caller, call.body.question(), continued(call.body.page.token))
    results = [FoundAccessSubject(SUBJECT_TYPE, str(user)) for user in found.users]
    return FoundAccessSubjects(NextAccessPage("" if found.after is None else str(found.after)), results)


@endpoint.post(ACTIONS, **_DECLARED)
async def search_access_actions(call: Call[AccessActionSearch, None, None, KeyHolder], postern: Postern) -> FoundAccessActions:
    """Search permissions of a user (AuthZEN)

    Returns permissions of the service that the API key belongs to.
    """
    found = await postern.services.rights.actions(call.caller, call.body.question())
    return FoundAccessActions(NextAccessPage(""), [FoundAccessAction(name) for name in found])


@endpoint.post(RESOURCES, caller=key(Permission.READ_USERS), limit=UNLIMITED, refuses=(NotImplementedHere,), tags=("service-interface",))
async def search_access_resources(_call: Call[AccessResourceSearch, None, None, KeyHolder], _postern: Postern) -> Never:
    """Search resources (AuthZEN)

    Not supported: the response is always 501, because Postern does not know the service's own objects.
    """
    raise NotImplementedHere("The service alone knows its objects: ask for the actions of a user instead")


def _answer(decision: AccessDecision) -> AccessEvaluation:
    return AccessEvaluation(decision.decision, decision.context)


def _question(subject: AccessSubject | None, action: AccessAction | None, resource: AccessResource | None) -> AccessQuestion:
    """Raises `BadRequest`, which names what is missing."""
    read = _read(subject, action, resource)
    if isinstance(read, IncompleteQuestion):
        raise BadRequest(f"{read.missing}: is missing")
    return read


def _read(
    subject: AccessSubject | None, action: AccessAction | None, resource: AccessResource | None, place: str = ""
) -> AccessQuestion | IncompleteQuestion:
    if subject is None or action is None or resource is None:
        missing = "subject" if subject is None else "action" if action is None else "resource"
        return IncompleteQuestion(f"{place}{missing}")
    return AccessQuestion(
        subject_type=subject.type,
        subject_id=subject.id,
        action=action.name,
        resource_type=resource.type,
        resource_id=resource.id,
    )
