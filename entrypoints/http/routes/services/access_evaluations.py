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
    """A user of the service."""

    type: Annotated[_Member, example(SUBJECT_TYPE)]
    """`user`. No other subject has permissions."""
    id: Annotated[_Member, example(_USER)]
    """The user's ID."""


class AccessSubjectKind(msgspec.Struct, frozen=True, kw_only=True):
    """The users of the service."""

    type: Annotated[_Member, example(SUBJECT_TYPE)]
    """`user`. No other subject has permissions."""


class AccessAction(msgspec.Struct, frozen=True, kw_only=True):
    """One of the service's permissions."""

    name: Annotated[_Member, example("invoices:write")]
    """The permission's key."""


class AccessResource(msgspec.Struct, frozen=True, kw_only=True):
    """The service whose key asks."""

    type: Annotated[_Member, example(RESOURCE_TYPE)]
    """`service`. What the service's own objects are, the service knows alone."""
    id: Annotated[_Member, example("billing")]
    """The service's slug or ID."""


class AccessEvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question: may the subject do this with the resource? Other members, such as `context` and `properties`, are ignored."""

    subject: AccessSubject
    """Who."""
    action: AccessAction
    """May do what."""
    resource: AccessResource
    """With what."""


class AccessEvaluationPart(msgspec.Struct, frozen=True, kw_only=True):
    """One of several questions. What it leaves out, the request says for all."""

    subject: AccessSubject | None = None
    """Who, if another than the request says."""
    action: AccessAction | None = None
    """May do what, if something else."""
    resource: AccessResource | None = None
    """With what, if with something else."""


class AccessEvaluationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How several questions are answered."""

    evaluations_semantic: Semantic = Semantic.EXECUTE_ALL
    """`execute_all` answers all; the others stop at the first no, or at the first yes."""


class AccessEvaluationsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Several questions. Without any, the request is one question, and the answer one decision. A question needs a subject, an action and a
    resource, of its own or by the request. Without one of them its decision is no, and the others are decided all the same.
    """

    subject: AccessSubject | None = None
    """Who, in every question that does not say."""
    action: AccessAction | None = None
    """May do what, in every question that does not say."""
    resource: AccessResource | None = None
    """With what, in every question that does not say."""
    evaluations: Annotated[
        Sequence[AccessEvaluationPart], msgspec.Meta(max_length=MOST_EVALUATIONS), example([{"action": {"name": "invoices:write"}}])
    ] = ()
    """The questions."""
    options: AccessEvaluationOptions = AccessEvaluationOptions()
    """When the answers end."""

    def question(self) -> AccessQuestion:
        """Of a request without `evaluations`. Raises `BadRequest`."""
        return _question(self.subject, self.action, self.resource)

    def questions(self) -> Sequence[AccessQuestion | IncompleteQuestion]:
        return [
            _read(one.subject or self.subject, one.action or self.action, one.resource or self.resource, f"evaluations[{number}].")
            for number, one in enumerate(self.evaluations)
        ]


class AccessEvaluation(msgspec.Struct, frozen=True):
    """A decision, and why."""

    decision: Annotated[bool, example(True)]
    """Whether the subject may."""
    context: Annotated[Mapping[str, Any], example({"reason": "role", "role": "editor", "assignment_id": _USER})]
    """`reason` as in `POST /api/service/check`, or `unknown_subject`, `unknown_resource`, `incomplete`; the role and the assignment that
    decide; the `error` of an incomplete question.
    """


class AccessEvaluations(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decisions, in the order of the questions."""

    evaluations: Sequence[AccessEvaluation] | None = None
    """The decisions. Fewer than the questions, if the first no or yes has ended them."""
    decision: bool | None = None
    """Of a request without `evaluations`, the one decision."""
    context: Mapping[str, Any] | None = None
    """Why."""


class AccessPage(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a search continues."""

    token: _Word = ""
    """The `next_token` of the answer before."""


class AccessSubjectSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do this with the resource?"""

    subject: AccessSubjectKind
    """The kind of subject."""
    action: AccessAction
    """May do what."""
    resource: AccessResource
    """With what."""
    page: AccessPage = AccessPage()
    """Where the search continues."""

    def question(self) -> AccessQuestion:
        return AccessQuestion(
            subject_type=self.subject.type,
            subject_id="",
            action=self.action.name,
            resource_type=self.resource.type,
            resource_id=self.resource.id,
        )


class AccessActionSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What may the subject do with the resource?"""

    subject: AccessSubject
    """Who."""
    resource: AccessResource
    """With what."""
    page: AccessPage = AccessPage()
    """All are on one page, so nothing continues."""

    def question(self) -> AccessQuestion:
        return AccessQuestion(
            subject_type=self.subject.type,
            subject_id=self.subject.id,
            action="",
            resource_type=self.resource.type,
            resource_id=self.resource.id,
        )


class AccessResourceSearch(msgspec.Struct, frozen=True, kw_only=True):
    """With what may the subject do this?"""

    subject: AccessSubject | None = None
    """Who."""
    action: AccessAction | None = None
    """May do what."""
    page: AccessPage = AccessPage()
    """Where the search continues."""


class NextAccessPage(msgspec.Struct, frozen=True):
    """Whether a search continues."""

    next_token: Annotated[str, example("")]
    """The next request sends it as `page.token`. Empty on the last page."""


class FoundAccessSubject(msgspec.Struct, frozen=True):
    """A user who has the permission."""

    type: Annotated[str, example(SUBJECT_TYPE)]
    """`user`."""
    id: Annotated[str, example(_USER)]
    """The user's ID."""


class FoundAccessSubjects(msgspec.Struct, frozen=True):
    """The users who have the permission."""

    page: NextAccessPage
    """Where the search continues. It comes first, for readers that begin before the end (section 8.3)."""
    results: Sequence[FoundAccessSubject]
    """In the order of their IDs. A page may be empty although the search continues."""


class FoundAccessAction(msgspec.Struct, frozen=True):
    """A permission that the user has."""

    name: Annotated[str, example("invoices:write")]
    """The permission's key."""


class FoundAccessActions(msgspec.Struct, frozen=True):
    """The permissions that the user has."""

    page: NextAccessPage
    """The search is over."""
    results: Sequence[FoundAccessAction]
    """Sorted, all on one page."""


class AuthZenConfiguration(msgspec.Struct, frozen=True):
    """The addresses of the Authorization API."""

    policy_decision_point: str
    """This installation."""
    access_evaluation_endpoint: str
    """For one question."""
    access_evaluations_endpoint: str
    """For several questions."""
    search_subject_endpoint: str
    """For the users who have a permission."""
    search_action_endpoint: str
    """For the permissions that a user has."""


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
    """Get the addresses of the Authorization API (OpenID AuthZEN)

    Each request needs an API key of a service, in the header `X-Api-Key`, or as a bearer token in `Authorization`; not in both. There is
    no search for resources.
    """
    at = postern.foundation.public_url
    return AuthZenConfiguration(at, at + EVALUATION, at + EVALUATIONS, at + SUBJECTS, at + ACTIONS)


@endpoint.post(EVALUATION, **_DECLARED)
async def check_access(call: Call[AccessEvaluationRequest, None, None, KeyHolder], postern: Postern) -> AccessEvaluation:
    """Evaluate a user's access (AuthZEN)

    A user whom the service does not have, another resource and an unknown action are no errors: the decision is no. A question without a
    subject, an action or a resource is refused, and so is one of these without its members. The response is never older than the request.
    """
    (decision,) = await postern.services.rights.evaluate(call.caller, [_question(call.body.subject, call.body.action, call.body.resource)])
    return _answer(decision)


@endpoint.post(EVALUATIONS, **_DECLARED)
async def check_accesses(call: Call[AccessEvaluationsRequest, None, None, KeyHolder], postern: Postern) -> AccessEvaluations:
    """Evaluate several access requests at once (AuthZEN)

    Each user is looked up once. The decision on a question that lacks something is no, and its `context.error` names what is missing. A
    subject, an action or a resource without its members is refused with all questions.
    """
    body = call.body
    if not body.evaluations:
        (decision,) = await postern.services.rights.evaluate(call.caller, [body.question()])
        return AccessEvaluations(decision=decision.decision, context=decision.context)
    decisions = await postern.services.rights.evaluate(call.caller, body.questions(), body.options.evaluations_semantic)
    return AccessEvaluations([_answer(decision) for decision in decisions])


@endpoint.post(SUBJECTS, **_DECLARED)
async def search_access_subjects(call: Call[AccessSubjectSearch, None, None, KeyHolder], postern: Postern) -> FoundAccessSubjects:
    """Search the users who have a permission (AuthZEN)

    Each request looks at the next 500 users of the service. So a page may have fewer results than the next one.
    """
    found = await postern.services.rights.subjects(call.caller, call.body.question(), continued(call.body.page.token))
    results = [FoundAccessSubject(SUBJECT_TYPE, str(user)) for user in found.users]
    return FoundAccessSubjects(NextAccessPage("" if found.after is None else str(found.after)), results)


@endpoint.post(ACTIONS, **_DECLARED)
async def search_access_actions(call: Call[AccessActionSearch, None, None, KeyHolder], postern: Postern) -> FoundAccessActions:
    """Search the permissions of a user (AuthZEN)

    Of the service whose key asks.
    """
    found = await postern.services.rights.actions(call.caller, call.body.question())
    return FoundAccessActions(NextAccessPage(""), [FoundAccessAction(name) for name in found])


@endpoint.post(RESOURCES, caller=key(Permission.READ_USERS), limit=UNLIMITED, refuses=(NotImplementedHere,), tags=("service-interface",))
async def search_access_resources(_call: Call[AccessResourceSearch, None, None, KeyHolder], _postern: Postern) -> Never:
    """Reject a search for resources (AuthZEN)

    The service's own objects are not known here, so the response is always 501.
    """
    raise NotImplementedHere("Only the service knows its objects: ask for the actions of a user instead")


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
