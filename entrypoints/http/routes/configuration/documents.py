"""Configuration as a document, by the API: read it, plan a change of it, apply it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.callers import Caller
from core.domain.platform.configuration.objects import pointer
from core.domain.platform.configuration.planning import Change, FieldChange, PlannedAction, Problem
from core.domain.secrets import Secret
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.platform.configurations import Loss
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Json
from entrypoints.http.machinery.callers import PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath, Word, example
from entrypoints.http.machinery.limits import DOCUMENTS
from entrypoints.http.routes.configuration.acting import DocumentCaller
from entrypoints.http.routes.configuration.applying import Applied, Configuring, Planned, endpoint_of
from entrypoints.http.routes.configuration.exporting import encoded, exported
from entrypoints.http.routes.configuration.reading import unused_secrets, without_references
from entrypoints.http.routes.configuration.registry import BY_ID, managed_objects

_TAGS = ("configuration",)
_OF_ORGANIZATION: Final = "/api/organizations/{org_slug}/configuration"
_OF_PLATFORM: Final = "/api/platform/configuration"
# The secrets that the record of a plan names.
_MOST_NOTED: Final = 100
_BODY: Final = Json(limit=2 << 20)
_MANAGE: Final = able(Capability.SETTINGS_MANAGE, impersonated=True)
# What a document sets outlasts an impersonation.
_APPLY: Final = able(Capability.SETTINGS_MANAGE, impersonated=False)
_TREE: Final = {"postern": 1, "organizations": {"acme": {"roles": {"support": {"name": "Support", "permissions": ["end_users.view"]}}}}}

_Tree = Annotated[Mapping[Word, Any], example(_TREE)]
_Pointer = Annotated[str, example("/organizations/acme/roles/support")]


class ConfigurationDocumentBody(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration document, and the secrets that it needs."""

    document: _Tree
    """The document: `postern: 1`, and `platform` or `organizations`. The guide on configuration lists the possible contents."""
    secrets: Annotated[Mapping[Word, Secret], example({"/organizations/acme/mail_server/password": "correct horse"})] = msgspec.field(
        default_factory=dict
    )
    """The values of secrets, by the JSON Pointer of their place in the document. References such as `env:NAME` are rejected here."""


class ManagedObjectRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a document manages."""

    place: _Pointer
    """The place of the object in a document, as a JSON Pointer."""
    document: Annotated[str, example("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")]
    """The digest of the document."""
    managed_at: datetime
    """When the document was applied."""
    managed_by: Annotated[str, example("ada@example.org")]
    """The email address of the person, or the name of the management API key, that applied the document. Empty for an operator at the
    command line, and if the account or the key was deleted.
    """
    has_drifted: Annotated[bool, example(False)]
    """Whether the object was changed in another way since then. If you apply the document again, the object is changed back."""


class ConfigurationDocument(msgspec.Struct, frozen=True):
    """The current settings as a document, without secrets."""

    document: _Tree
    """The document."""
    managed: Sequence[ManagedObjectRecord]
    """The objects that an applied document manages, by their places. For an organization: the objects in it. For the installation: its own
    objects.
    """


class ChangedField(msgspec.Struct, frozen=True, kw_only=True):
    """A field that changes."""

    name: Annotated[str, example("permissions")]
    """The field's name."""
    before: Annotated[Any, example(["end_users.view"])] = None
    """The current value; null for a secret, and for an object that does not exist yet."""
    after: Annotated[Any, example(["end_users.view", "end_users.manage"])] = None
    """The new value; null for a secret."""
    is_secret: bool = False
    """Whether the field is a secret. Its values are never shown."""


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change in a plan. It applies completely or not at all."""

    act: PlannedAction
    """`make` (create), `change` or `end` (delete)."""
    place: _Pointer
    """The place of the object in a document, as a JSON Pointer."""
    fields: Sequence[ChangedField]
    """The fields that change, by name. For `end`: empty, except in a proposal, where the fields describe the object to delete."""
    needs_proof: Annotated[bool, example(False)] = False
    """Whether the change requires recent authentication, such as the deletion of a service."""


class PlannedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the plan deletes."""

    place: _Pointer
    """The place of the object."""
    what: Annotated[str, example("https://billing.acme.example/callback")]
    """The redirect URI to delete; empty if the object itself is deleted."""
    people: Annotated[int, example(12)]
    """The number of people who use or have the object. For a redirect URI: the number of people who signed in to its service in the last 7
    days.
    """


class DocumentProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why the document cannot be applied."""

    place: _Pointer
    """The place in the document."""
    message: Annotated[str, example("there is no such service, and the document does not create one")]
    """A description of the reason."""


class ConfigurationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a document requires, in the order in which they are applied. If there are problems, there are no changes."""

    digest: Annotated[str, example("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")]
    """The digest of the document. The audit log has it with each change, and the console shows it with each object that the document
    manages.
    """
    changes: Sequence[PlannedChange]
    """The changes; empty if nothing changes."""
    losses: Sequence[PlannedLoss]
    """What the changes delete, and the number of people affected."""
    problems: Sequence[DocumentProblem]
    """The problems, at most 100."""


class RefusedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was rejected. Its object is unchanged."""

    act: PlannedAction
    """`make` (create), `change` or `end` (delete)."""
    place: _Pointer
    """The place of the object."""
    code: Annotated[str, example("CONFLICT")]
    """The error code, as in the response of the object's own endpoint."""
    message: Annotated[str, example("This role is in use: a member or a team has it, or a pending invitation offers it")]
    """The error message."""


class ConfigurationApplied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of applying a document."""

    digest: Annotated[str, example("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")]
    """The digest of the document."""
    done: Sequence[PlannedChange]
    """The changes that were applied."""
    refused: Sequence[RefusedChange]
    """The changes that were rejected. Fix the causes, then apply the document again."""


@endpoint.get(_OF_ORGANIZATION, caller=_MANAGE, keys=True, limit=DOCUMENTS, tags=_TAGS, verb="")
async def get_organization_configuration(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ConfigurationDocument:
    """Get the configuration of an organization

    Return the settings of the organization that you can see as a document, by slugs and names. The document never contains secrets, domain
    verification tokens, Postern's keys and certificates, or people. Objects that a directory created are not included.
    """
    acting = DocumentCaller(postern, call.request, call.caller)
    slug = call.caller.organization_slug
    return ConfigurationDocument(await exported(acting, [slug], with_platform=False), await _managed(acting, slug))


@endpoint.post(
    f"{_OF_ORGANIZATION}/plan", caller=_MANAGE, keys=True, limit=DOCUMENTS, refuses=(BadRequest,), accepts=_BODY, tags=_TAGS, verb=""
)
async def plan_organization_configuration(
    call: Call[ConfigurationDocumentBody, None, OrganizationPath, Member], postern: Postern
) -> ConfigurationPlan:
    """Plan a document for an organization

    Nothing changes. Return the changes that the document requires, in order, what they delete, and the number of people affected. Objects
    that the document does not name stay unchanged. To delete the other entries of a collection, send `{"whole": true, "entries": {…}}` in
    its place. If the document has problems, there are no changes, because nothing would be applied. Each secret that you send is a change,
    even if it is the stored one. The audit log records the plan.
    """
    planned = await _planned(DocumentCaller(postern, call.request, call.caller), call.body)
    if planned.document.secrets:
        call.request.document = planned.document.digest
        places = sorted(pointer((*place.steps, name)) for place, name in planned.document.secrets)
        await postern.platform.configurations.note_plan(call.caller.organization, places[:_MOST_NOTED], call.actor)
    return plan_record(planned)


@endpoint.post(
    f"{_OF_ORGANIZATION}/apply", caller=_APPLY, keys=True, limit=DOCUMENTS, refuses=(BadRequest,), accepts=_BODY, tags=_TAGS, verb=""
)
async def apply_organization_configuration(
    call: Call[ConfigurationDocumentBody, None, OrganizationPath, Member], postern: Postern
) -> ConfigurationApplied:
    """Apply a document to an organization

    Each change applies like a request to the object's own endpoint: with the same permissions, limits and reauthentication, and completely
    or not at all. A management API key with `connections.manage` needs no reauthentication for sign-in rules, domain routes and identity
    providers. If the response is lost, apply the document again: applied changes are not repeated, except that secrets are set again. A
    document with problems is rejected with the first problem.
    """
    return await _applied(DocumentCaller(postern, call.request, call.caller), call.body)


@endpoint.get(_OF_PLATFORM, caller=PLATFORM_OWNER, keys=PlatformCapability.CONFIGURATION_MANAGE, limit=DOCUMENTS, tags=_TAGS)
async def get_platform_configuration(call: Call[None, None, None, Caller], postern: Postern) -> ConfigurationDocument:
    """Get the configuration of the installation

    Return the installation's fields, and the tier and the limits of every organization, as a document. For tiers and limits, a management
    API key also needs `organizations.view`. The settings that organizations manage themselves are not included. Their own members, their
    management API keys and the operator's command can read them.
    """
    acting = DocumentCaller(postern, call.request, call.caller)
    slugs = await postern.platform.configurations.slugs() if await acting.may_name("") is None else ()
    document = await exported(acting, slugs, with_platform=True, are_all=True)
    return ConfigurationDocument(await encoded(document), await _managed(acting, ""))


@endpoint.post(
    f"{_OF_PLATFORM}/plan",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.CONFIGURATION_MANAGE,
    limit=DOCUMENTS,
    refuses=(BadRequest,),
    accepts=_BODY,
    tags=_TAGS,
)
async def plan_platform_configuration(call: Call[ConfigurationDocumentBody, None, None, Caller], postern: Postern) -> ConfigurationPlan:
    """Plan a document for the installation

    The request and the response are those for an organization. `organizations` can have `limits`, for which a management API key also needs
    `tiers.manage`.
    """
    return plan_record(await _planned(DocumentCaller(postern, call.request, call.caller), call.body))


@endpoint.post(
    f"{_OF_PLATFORM}/apply",
    caller=PLATFORM_OWNER,
    keys=PlatformCapability.CONFIGURATION_MANAGE,
    limit=DOCUMENTS,
    refuses=(BadRequest,),
    accepts=_BODY,
    tags=_TAGS,
)
async def apply_platform_configuration(call: Call[ConfigurationDocumentBody, None, None, Caller], postern: Postern) -> ConfigurationApplied:
    """Apply a document to the installation

    The request and the response are those for an organization. Only the operator's command can create organizations.
    """
    return await _applied(DocumentCaller(postern, call.request, call.caller), call.body)


async def _managed(acting: DocumentCaller, organization: str) -> Sequence[ManagedObjectRecord]:
    """What the caller may see of it."""
    return [
        ManagedObjectRecord(
            place=str(one.mark.place),
            document=one.mark.document,
            managed_at=one.mark.at,
            managed_by=one.mark.by,
            has_drifted=one.has_drifted,
        )
        for one in await managed_objects(acting.postern, organization)
        if await acting.may(BY_ID[one.mark.place.kind].shown_by, organization) is None
    ]


async def _planned(acting: DocumentCaller, sent: ConfigurationDocumentBody) -> Planned:
    planned = await Configuring(acting).plan(sent.document, without_references(sent.secrets))
    unused = unused_secrets(planned.document, sent.secrets)
    return planned if not unused else planned.with_problems(unused)


async def _applied(acting: DocumentCaller, sent: ConfigurationDocumentBody) -> ConfigurationApplied:
    configuring = Configuring(acting)
    planned = await configuring.plan(sent.document, without_references(sent.secrets))
    problems = (*planned.problems, *unused_secrets(planned.document, sent.secrets))
    if problems:
        more = f", and {len(problems) - 1} more problems: plan the document to see them" if len(problems) > 1 else ""
        raise BadRequest(f"{pointer(problems[0].steps) or 'document'}: {problems[0].message}{more}")
    return applied_record(planned, await configuring.apply(planned))


def plan_record(planned: Planned, *, says_what_ends: bool = False) -> ConfigurationPlan:
    problems = planned.problems
    return ConfigurationPlan(
        digest=planned.document.digest,
        changes=[] if problems else [change_record(one, says_what_ends=says_what_ends) for one in planned.plan.changes],
        losses=[] if problems else [loss_record(one) for one in planned.losses],
        problems=[problem_record(one) for one in problems],
    )


def plan_digest(told: Mapping[str, Any], losses: Sequence[Loss]) -> str:
    """The digest of all that a plan shows: the document, and each change with the values before and after, of an end with what the object
    is. How many people a loss touches is left out, since it changes by the hour.
    """
    return sha256(json.dumps({**told, "losses": [loss.what for loss in losses]}, sort_keys=True).encode()).hexdigest()


def applied_record(planned: Planned, applied: Applied) -> ConfigurationApplied:
    return ConfigurationApplied(
        digest=planned.document.digest,
        done=[change_record(one) for one in applied.done],
        refused=[
            RefusedChange(act=one.change.act, place=str(one.change.place), code=one.refusal.code, message=one.refusal.message)
            for one in applied.refused
        ],
    )


_changed_field = shown(FieldChange, ChangedField)


def change_record(change: Change, *, says_what_ends: bool = False) -> PlannedChange:
    fields = [_changed_field(one) for one in change.fields]
    if says_what_ends and change.act is PlannedAction.END:
        # Another object may have its name by the time that somebody ends it.
        fields = [ChangedField(name=name, before=value) for name, value in sorted(change.present.items())]
    endpoint = endpoint_of(change)
    needs_proof = endpoint is not None and endpoint.step_up is not None
    return PlannedChange(act=change.act, place=str(change.place), fields=fields, needs_proof=needs_proof)


loss_record = shown(Loss, PlannedLoss, place=lambda loss: str(loss.place))


def problem_record(problem: Problem) -> DocumentProblem:
    return DocumentProblem(place=pointer(problem.steps), message=problem.message)
