"""Sync runs of an LDAP directory, and an owner's approval of those that wait."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, TeamLimitExceeded
from core.domain.federation.directory_runs.runs import (
    MOST_PEOPLE_SHOWN,
    DirectoryRun,
    NamedAs,
    RunKind,
    RunPerson,
    RunState,
    digest_of_ends,
)
from core.domain.identifiers import DirectoryRunId, UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Id, Paging, example, page_of
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.connections import ConfirmedSettings
from entrypoints.http.routes.tenancy.upstream_providers import PROVIDER, UpstreamProviderPath

_TAGS = ("directory-runs",)
_DIGEST: Final = "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3"
RUNS: Final = f"{PROVIDER}/runs"
_RUN: Final = f"{RUNS}/{{run_id}}"
_MANAGE: Final = able(Capability.SETTINGS_MANAGE, impersonated=True)
_IN_PERSON: Final = able(Capability.SETTINGS_MANAGE, impersonated=False)


class DirectoryRunPath(UpstreamProviderPath, frozen=True):
    run_id: UUID
    """The ID of the run."""


class DirectoryRunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A directory sync run: the changes that it made or would make."""

    id: Id
    kind: Annotated[RunKind, example("whole")]
    """`plan` is a preview of everyone. `whole` syncs everyone. `changes` syncs changed people. `identities` checks for removed users."""
    state: Annotated[RunState, example("waiting")]
    """`running`, `done`, `failed`, `waiting` (pending an owner's approval), `agreed` (approved by an owner and carried out by another run),
    `left` (discarded by an owner), or `over` (superseded by a newer run).
    """
    started_at: datetime
    """When the run started."""
    ended_at: datetime | None
    """When the run ended; null while it is in progress."""
    read: Annotated[int, example(214)]
    """The number of people read so far."""
    came: Annotated[int, example(3)]
    """The number of people added, including people added again."""
    changed: Annotated[int, example(12)]
    """The number of people whose attributes changed in the directory."""
    ended: Annotated[int, example(1)]
    """The number of people deprovisioned."""
    held_back: Annotated[int, example(40)]
    """The number of people who are deprovisioned only after an owner's approval."""
    left_out: Annotated[int, example(2)]
    """The number of people skipped."""
    reasons: Annotated[Mapping[str, int], example({"other_domain": 2})]
    """The number of people skipped, by reason."""
    teams: Annotated[int, example(0)]
    """The number of teams created, changed or deleted."""
    fault: Annotated[str, example("")]
    """Why the run failed."""
    digest: Annotated[str, example(_DIGEST)] | None
    """The digest of the affected people and actions, for a run that awaits approval. An owner sends the digest back to approve the run."""


class ListedDirectoryRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The last 50 runs of the last 30 days."""

    runs: Sequence[DirectoryRunRecord]
    """The runs, newest first."""
    next_at: datetime | None
    """When the next run starts; null if none is scheduled."""


class DirectoryRunPersonRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom a sync run affects."""

    what: Annotated[NamedAs, example("end")]
    """`end` for a person to deprovision, `left_out` for a skipped person, `comes` for a person whom a preview would add."""
    reason: Annotated[str, example("gone")]
    """The reason, as a code."""
    named: Annotated[str, example("ada@acme.example")]
    """The email address, or the name in the directory. For a person whom a preview would add: the name and the email address."""


class NamedDirectoryRun(DirectoryRunRecord, frozen=True, kw_only=True):
    """A directory sync run, with the people it affects."""

    people: Sequence[DirectoryRunPersonRecord]
    """The people to deprovision, then the skipped people, and then the people to add. At most 1000."""
    taken_over: Sequence[DirectoryRunPersonRecord]
    """The people whom the connection would manage after a takeover from SCIM: `stays_member` or `comes_back`. At most 1000."""
    take_over_digest: Annotated[str, example(_DIGEST)] | None
    """The digest of these people and actions; null if there are none."""
    privileged: Sequence[DirectoryRunPersonRecord]
    """The privileged people whom the directory no longer lists: `may_more` or `owner`. At most 1000."""
    privileged_digest: Annotated[str, example(_DIGEST)] | None
    """The digest of these people; null if there are none."""


class DirectoryRunPeopleQuery(Paging, frozen=True, kw_only=True):
    what: NamedAs | None = None
    """Only people with this reason."""


class DecidedPeople(msgspec.Struct, frozen=True):
    """The number of people that the owner's decision affects."""

    people: Annotated[int, example(40)]
    """The number of people."""


class StartedRun(msgspec.Struct, frozen=True):
    """The confirmation that a full sync run starts within a minute."""

    started: bool
    """Always true."""


@endpoint.get(RUNS, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_directory_runs(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> ListedDirectoryRuns:
    """List directory sync runs

    Returns the LDAP sync runs of a connection, newest first. A run in progress shows the number of people read so far.
    """
    listed = await postern.federation.directory_runs.list(call.caller, UpstreamProviderId(call.path.provider_id))
    return ListedDirectoryRuns(runs=[_record(one) for one in listed.runs], next_at=listed.next_at)


@endpoint.get(_RUN, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_directory_run(call: Call[None, None, DirectoryRunPath, Member], postern: Postern) -> NamedDirectoryRun:
    """Get a directory sync run

    Returns the run and the people it affects. A run that awaits approval lists everyone whom it would deprovision, with the reason.
    """
    shown = await postern.federation.directory_runs.get(*_of(call))
    return NamedDirectoryRun(
        **msgspec.structs.asdict(_record(shown.run)),
        people=[_person(one) for one in shown.people],
        taken_over=[_person(one) for one in shown.taken_over[:MOST_PEOPLE_SHOWN]],
        take_over_digest=_digest(shown.taken_over),
        privileged=[_person(one) for one in shown.privileged[:MOST_PEOPLE_SHOWN]],
        privileged_digest=_digest(shown.privileged),
    )


@endpoint.get(f"{_RUN}/people", caller=_MANAGE, keys=True, tags=_TAGS)
async def list_directory_run_people(
    call: Call[None, DirectoryRunPeopleQuery, DirectoryRunPath, Member], postern: Postern
) -> Sequence[DirectoryRunPersonRecord]:
    """List the people affected by a directory sync run

    Returns deprovisioned people first, then skipped people, and then added people. A preview lists everyone whom it would add.
    """
    people = await postern.federation.directory_runs.list_people(*_of(call), call.query.what, page_of(call.query))
    return [_person(one) for one in people]


@endpoint.post(RUNS, caller=_IN_PERSON, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def create_directory_run(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> StartedRun:
    """Start a full directory sync run

    The run starts within a minute. Until an owner has approved the first run, it is a preview.
    """
    await postern.federation.directory_runs.start(call.caller, UpstreamProviderId(call.path.provider_id), call.actor)
    return StartedRun(started=True)


@endpoint.post(
    f"{_RUN}/go-on",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def approve_directory_run(call: Call[ConfirmedSettings, None, DirectoryRunPath, Member], postern: Postern) -> DirectoryRunRecord:
    """Approve a directory sync run

    Only an owner can approve a run. Send the `digest` of the run that you reviewed. If the run is more than a day old, or the connection's
    settings have changed, the response is 409. Another run carries out the changes within a minute. If that run would deprovision further
    people, it stops again. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    run = await postern.federation.directory_runs.go_on(
        call.caller,
        UpstreamProviderId(call.path.provider_id),
        DirectoryRunId(call.path.run_id),
        call.actor,
        seen=call.body.digest,
    )
    return _record(run)


@endpoint.post(
    f"{_RUN}/leave",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(Conflict,),
    tags=_TAGS,
)
async def decline_directory_run(call: Call[None, None, DirectoryRunPath, Member], postern: Postern) -> DirectoryRunRecord:
    """Discard a directory sync run

    Only an owner can discard a run. No one is deprovisioned, and the same people do not need approval again. After the first preview, no
    run starts until someone starts one. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    run = await postern.federation.directory_runs.leave(
        call.caller, UpstreamProviderId(call.path.provider_id), DirectoryRunId(call.path.run_id), call.actor
    )
    return _record(run)


@endpoint.post(
    f"{_RUN}/take-over",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict, TeamLimitExceeded),
    tags=_TAGS,
)
async def take_over_from_scim(call: Call[ConfirmedSettings, None, DirectoryRunPath, Member], postern: Postern) -> DecidedPeople:
    """Take people over from SCIM

    Only an owner can do this. Send the `take_over_digest` that you reviewed, from a full run of today. If anything has changed since, the
    response is 409. From then on, the connection manages the people in `taken_over`. SCIM changes to them are rejected with 409. Requires a
    recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    return DecidedPeople(await postern.federation.directory_runs.take_over(*_of(call), call.actor, seen=call.body.digest))


@endpoint.post(
    f"{_RUN}/keep",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def keep_privileged_people(call: Call[ConfirmedSettings, None, DirectoryRunPath, Member], postern: Postern) -> DecidedPeople:
    """Keep privileged people whom the directory no longer lists

    Only an owner can do this. Send the `privileged_digest` that you reviewed. The people in `privileged` become members whom your
    organization manages itself. The directory does not deprovision them, and sync runs skip them while they are members. Requires a recent
    sign-in or reauthentication, with MFA if you have it enabled.
    """
    return DecidedPeople(await postern.federation.directory_runs.keep(*_of(call), call.actor, seen=call.body.digest))


@endpoint.post(
    f"{_RUN}/end",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def end_privileged_people(call: Call[ConfirmedSettings, None, DirectoryRunPath, Member], postern: Postern) -> DecidedPeople:
    """Deprovision privileged people whom the directory no longer lists

    Only an owner can do this. Send the `privileged_digest` that you reviewed. The people in `privileged` lose their membership, as in a
    sync run. Owners are not deprovisioned: change their role first. Requires a recent sign-in or reauthentication, with MFA if you have it
    enabled.
    """
    return DecidedPeople(await postern.federation.directory_runs.end(*_of(call), call.actor, seen=call.body.digest))


def _of(call: Call[Any, Any, DirectoryRunPath, Member]) -> tuple[Member, UpstreamProviderId, DirectoryRunId]:
    return call.caller, UpstreamProviderId(call.path.provider_id), DirectoryRunId(call.path.run_id)


def _digest(people: Sequence[RunPerson]) -> str | None:
    return digest_of_ends(people).hex() if people else None


_record = shown(DirectoryRun, DirectoryRunRecord, within=("counts",), digest=lambda run: None if run.digest is None else run.digest.hex())
_person = shown(RunPerson, DirectoryRunPersonRecord)
