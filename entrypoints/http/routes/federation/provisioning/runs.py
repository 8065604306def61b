"""Provisioning runs of an application, the provisioned users, and the recorded requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.provisioning.people import PlaceThere
from core.domain.federation.provisioning.runs import (
    DoneThere,
    ProvisioningRun,
    ProvisioningRunKind,
    ProvisioningRunPerson,
    ProvisioningRunState,
)
from core.domain.identifiers import ProvisioningRunId, UserId
from core.domain.identity.proofs import StepUp
from core.domain.requests import DEFAULT_PAGE_LIMIT, LARGEST_PAGE_LIMIT
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, OrganizationPath, ServicePath, SlugOfService, UserUuid, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.connections import ConfirmedSettings
from ports.federation.provisioning_runs import FarExchange, ListedThere

_TAGS = ("provisioning",)
_DIGEST: Final = "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3"
_CONNECTION: Final = "/api/organizations/{org_slug}/services/{service_slug}/provisioning"
_RUNS: Final = f"{_CONNECTION}/runs"
_RUN: Final = f"{_RUNS}/{{run_id}}"
_PEOPLE: Final = f"{_CONNECTION}/people"
# Names of people, and what was said about them: members in person alone.
_IN_PERSON: Final = able(Capability.INTEGRATIONS_MANAGE, impersonated=False)


class ProvisioningRunPath(ServicePath, frozen=True):
    run_id: UUID
    """The ID of the run."""


class PersonTherePath(ServicePath, frozen=True):
    user_id: UUID
    """The person's ID."""


class ProvisioningRunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sync run: the changes that it made or would make in the target system."""

    id: Id
    kind: Annotated[ProvisioningRunKind, example("whole")]
    """`plan` is a preview of everyone. `whole` syncs everyone. `changes` syncs the people affected by a change."""
    state: Annotated[ProvisioningRunState, example("waiting")]
    """`running`, `done`, `failed`, `waiting` (pending an owner's approval), `agreed` (approved by an owner and carried out by another run),
    `left` (discarded by an owner), or `over` (superseded by a newer run).
    """
    begun_at: datetime
    """When the run started."""
    ended_at: datetime | None
    """When the run ended; null while it is in progress."""
    made: Annotated[int, example(3)]
    """The number of users created in the target system."""
    matched: Annotated[int, example(20)]
    """The number of users that already existed in the target system."""
    changed: Annotated[int, example(12)]
    """The number of users updated because of changes in Postern."""
    overwritten: Annotated[int, example(2)]
    """The number of users that differed in the target system and were overwritten."""
    ended: Annotated[int, example(1)]
    """The number of users deprovisioned; in a preview, the number of users to deprovision."""
    left_out: Annotated[int, example(2)]
    """The number of people skipped, or rejected by the target system."""
    unchanged: Annotated[int, example(180)]
    """The number of people for whom nothing was sent."""
    held_back: Annotated[int, example(40)]
    """The number of people who are deprovisioned only after an owner's approval."""
    adoptable: Annotated[int, example(18)]
    """The number of people in a preview whose account in the target system has another `externalId`. Their email address is verified for
    your organization. They count as skipped. An owner can approve the takeover of these accounts.
    """
    adopts: Annotated[bool, example(False)]
    """Whether an owner has approved the takeover of these accounts."""
    why: Annotated[str, example("timeout")] | None
    """Why the run failed, as a code."""
    digest: Annotated[str, example(_DIGEST)] | None
    """The digest of the affected people and actions, for a run that awaits approval. An owner sends the digest back to approve the run."""


class ProvisioningRunPersonRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom a sync run affects."""

    what: Annotated[DoneThere, example("left_out")]
    """`made`, `matched`, `changed`, `overwritten`, `ended` or `left_out`."""
    why: Annotated[str, example("address_not_proved")] | None
    """The reason: a code of Postern, or the `scimType` of the target system."""
    user: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None
    """The person's ID; null if the person was deleted in Postern."""
    named: Annotated[str, example("ada@acme.example")] | None
    """The email address of a member; for anyone else, the username that was sent."""
    attributes: Annotated[Sequence[str], example(["displayName"])]
    """The attributes that were written. In a preview: the attributes to write or remove."""
    former_external_id: Annotated[str, example("00u1a2b3c4")] | None
    """The other `externalId` of the account in the target system. In a preview: of an account that can be taken over. In a run: of an
    account that was taken over.
    """


class AgreedRun(ConfirmedSettings, frozen=True, kw_only=True):
    """The approval of a run."""

    adopt: Annotated[bool, example(False)] = False
    """Whether to take over the accounts that the preview counts as `adoptable`: their `externalId` is replaced. If false, these people are
    skipped.
    """


_Limit = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE_LIMIT)]


class ProvisioningPeopleQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on the people of a run."""

    what: DoneThere | None = None
    """Only people with this result."""
    after: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$", max_length=9), example("100")] | None = None
    """The `next` value of the previous page."""
    limit: _Limit = DEFAULT_PAGE_LIMIT
    """The maximum number of people to return. Values above the maximum are rejected."""


class ProvisioningRunPeople(msgspec.Struct, frozen=True):
    """One page of the people of a sync run."""

    people: Sequence[ProvisioningRunPersonRecord]
    """The people on this page, in processing order."""
    next: Annotated[str, example("100")] | None
    """Send it as `after` to get the next page; null on the last page."""


class PeopleThereQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A filter on the people in the system of an application."""

    place: PlaceThere | None = None
    """Only people in this state."""
    after: UUID | None = None
    """The `next` value of the previous page."""
    limit: _Limit = DEFAULT_PAGE_LIMIT
    """The maximum number of people to return. Values above the maximum are rejected."""


class PersonThereRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of a provisioned user."""

    user: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")]
    """The person's ID."""
    named: Annotated[str, example("ada@acme.example")] | None
    """The email address of a member; for anyone else, the username that was sent."""
    far_id: Annotated[str, example("2819c223")] | None
    """The ID in the target system; null if the user does not exist there."""
    place: Annotated[PlaceThere, example("sent")]
    """`sent`, `left_out` (skipped by Postern), `refused` (rejected by the target system), or `to_end` or `to_delete` while deprovisioning
    has not succeeded.
    """
    is_active: Annotated[bool, example(True)]
    """Whether the user is active in the target system."""
    why: Annotated[str, example("uniqueness")] | None
    """The reason: a code of Postern, or the `scimType` of the target system."""
    changed_at: datetime
    """When this state was determined."""


class PeopleThere(msgspec.Struct, frozen=True):
    """One page of provisioned users."""

    people: Sequence[PersonThereRecord]
    """The people on this page."""
    next: UUID | None
    """Send it as `after` to get the next page; null on the last page."""


class SystemsOfPersonPath(OrganizationPath, frozen=True):
    user_id: UserUuid


class PersonsSystemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The target system of an application, and the person's state in it."""

    service_slug: SlugOfService
    service_name: Annotated[str, example("Board")]
    """The application's name."""
    place: Annotated[PlaceThere, example("sent")]
    """`sent`, `left_out` (skipped by Postern), `refused` (rejected by the target system), or `to_end` or `to_delete` while deprovisioning
    has not succeeded.
    """
    is_active: Annotated[bool, example(True)]
    """Whether the user is active in the target system."""
    why: Annotated[str, example("uniqueness")] | None
    """The reason: a code of Postern, or the `scimType` of the target system."""
    changed_at: datetime
    """When this state was determined."""


class StartedProvisioning(msgspec.Struct, frozen=True):
    """The confirmation that a sync run starts within a minute."""

    started: bool
    """Always true."""


class FarExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A SCIM request to the target system and its response, without personal data."""

    at: datetime
    """When the request was sent."""
    method: Annotated[str, example("POST")]
    """The HTTP method of the request."""
    path: Annotated[str, example("/Users")]
    """The path pattern, without IDs and values."""
    status: Annotated[int, example(409)] | None
    """The status code of the response; null if there was none."""
    scim_type: Annotated[str, example("uniqueness")] | None
    """The SCIM error type."""
    said: Annotated[str, example("… is taken")]
    """The error message of the target system, without sent values and personal data; or why there was no response."""
    has_failed: Annotated[bool, example(True)]
    """Whether the request failed. The last 50 requests, and the last 50 failed ones, are kept for 7 days."""


@endpoint.get(_RUNS, caller=_IN_PERSON, verb="provisioning-run list", tags=_TAGS)
async def list_provisioning_runs(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[ProvisioningRunRecord]:
    """List provisioning sync runs

    Returns the last 50 sync runs of the last 30 days for an application, newest first.
    """
    return [_run(one) for one in await postern.federation.provisioning_runs.list(call.caller, call.path.service_slug)]


@endpoint.post(_RUNS, caller=_IN_PERSON, limit=CREDENTIALS, refuses=(Conflict,), verb="provisioning-run create", tags=_TAGS)
async def create_provisioning_run(call: Call[None, None, ServicePath, Member], postern: Postern) -> StartedProvisioning:
    """Start a full provisioning sync run

    The run starts within a minute. Until an owner has approved the first run, it is a preview.
    """
    await postern.federation.provisioning_runs.start(call.caller, call.path.service_slug, call.actor)
    return StartedProvisioning(started=True)


@endpoint.get(_RUN, caller=_IN_PERSON, verb="provisioning-run get", tags=_TAGS)
async def get_provisioning_run(call: Call[None, None, ProvisioningRunPath, Member], postern: Postern) -> ProvisioningRunRecord:
    """Get a provisioning sync run

    The counts of a run appear when it ends.
    """
    return _run(await postern.federation.provisioning_runs.get(*_of(call)))


@endpoint.get(f"{_RUN}/people", caller=_IN_PERSON, verb="provisioning-run people", tags=_TAGS)
async def list_provisioning_run_people(
    call: Call[None, ProvisioningPeopleQuery, ProvisioningRunPath, Member], postern: Postern
) -> ProvisioningRunPeople:
    """List the people affected by a provisioning sync run

    A preview lists everyone whom it would create, match or deprovision. Any other run lists the people whom it processed.
    """
    query = call.query
    what = None if query.what is None else query.what.value
    after = None if query.after is None else int(query.after)
    people = await postern.federation.provisioning_runs.list_people(*_of(call), what=what, after=after, limit=query.limit)
    return ProvisioningRunPeople([_person(one) for one in people], str(people[-1].number) if len(people) == query.limit else None)


@endpoint.post(
    f"{_RUN}/go-on",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="provisioning-run approve",
    tags=_TAGS,
)
async def approve_provisioning_run(call: Call[AgreedRun, None, ProvisioningRunPath, Member], postern: Postern) -> ProvisioningRunRecord:
    """Approve a provisioning sync run

    Only an owner can approve a run. Send the `digest` of the run that you reviewed. If the run is more than a day old, or the connection's
    settings have changed, even in a draft, the response is 409. Another run carries out the changes within a minute. If that run would
    deprovision further users, it stops again. With `adopt`, exactly the accounts that the preview lists with a `former_external_id` are
    taken over. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    runs, body = postern.federation.provisioning_runs, call.body
    return _run(await runs.go_on(*_of(call), call.actor, seen=body.digest, adopts=body.adopt))


@endpoint.post(
    f"{_RUN}/leave",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(Conflict,),
    verb="provisioning-run decline",
    tags=_TAGS,
)
async def decline_provisioning_run(call: Call[None, None, ProvisioningRunPath, Member], postern: Postern) -> ProvisioningRunRecord:
    """Discard a provisioning sync run

    Only an owner can discard a run. The users stay active in the target system, and the same users do not need approval again. After the
    first preview, no run starts until someone starts one. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    return _run(await postern.federation.provisioning_runs.leave(*_of(call), call.actor))


@endpoint.get(_PEOPLE, caller=_IN_PERSON, verb="provisioning people", tags=_TAGS)
async def list_people_there(call: Call[None, PeopleThereQuery, ServicePath, Member], postern: Postern) -> PeopleThere:
    """List the provisioned users of an application

    Skipped and rejected people are included, with the reason. People who were deleted in Postern are not included.
    """
    query = call.query
    after = None if query.after is None else UserId(query.after)
    runs, service = postern.federation.provisioning_runs, call.path.service_slug
    people = await runs.people(call.caller, service, query.place, after=after, limit=query.limit)
    return PeopleThere([_there(one) for one in people], people[-1].user if len(people) == query.limit else None)


@endpoint.get("/api/organizations/{org_slug}/users/{user_id}/provisioning", caller=_IN_PERSON, verb="provisioning person", tags=_TAGS)
async def list_systems_of_person(call: Call[None, None, SystemsOfPersonPath, Member], postern: Postern) -> Sequence[PersonsSystemRecord]:
    """List the target systems of a person

    Returns the systems that the person is provisioned to, with the status in each. If no connection of your organization has processed the
    person, the response is 404.
    """
    runs = postern.federation.provisioning_runs
    return [_system(one) for one in await runs.of_person(call.caller, UserId(call.path.user_id))]


@endpoint.post(f"{_PEOPLE}/{{user_id}}/try-again", caller=_IN_PERSON, limit=CREDENTIALS, verb="provisioning try-again", tags=_TAGS)
async def retry_person_there(call: Call[None, None, PersonTherePath, Member], postern: Postern) -> StartedProvisioning:
    """Retry the provisioning of a person

    Postern processes the person within a minute, with the current values.
    """
    path = call.path
    await postern.federation.provisioning_runs.try_again(call.caller, path.service_slug, UserId(path.user_id), call.actor)
    return StartedProvisioning(started=True)


@endpoint.get(f"{_CONNECTION}/exchanges", caller=_IN_PERSON, verb="provisioning exchanges", tags=_TAGS)
async def list_far_exchanges(call: Call[None, None, ServicePath, Member], postern: Postern) -> Sequence[FarExchangeRecord]:
    """List outbound SCIM requests of an application

    Returns the last 50 requests and the last 50 failed requests of the last 7 days, newest first. They contain no personal data.
    """
    return [_exchange(one) for one in await postern.federation.provisioning_runs.exchanges(call.caller, call.path.service_slug)]


def _of(call: Call[Any, Any, ProvisioningRunPath, Member]) -> tuple[Member, str, ProvisioningRunId]:
    return call.caller, call.path.service_slug, ProvisioningRunId(call.path.run_id)


_run = shown(ProvisioningRun, ProvisioningRunRecord, digest=lambda run: None if run.digest is None else run.digest.hex())
_person = shown(ProvisioningRunPerson, ProvisioningRunPersonRecord)
_there = shown(ListedThere, PersonThereRecord)
_system = shown(ListedThere, PersonsSystemRecord)
_exchange = shown(FarExchange, FarExchangeRecord)
