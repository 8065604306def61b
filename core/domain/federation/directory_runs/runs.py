"""Sync runs of an LDAP directory: what a run would change, has changed, and needs an owner's approval for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.directory_runs.people import PersonDecision, PersonFate, ReasonForEnd, WhyLeftOut
from core.domain.identifiers import DirectoryRunId, OrganizationId, UpstreamProviderId, UserId
from core.domain.identity.upstream.ldap.surveys import LdapMarks
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.upstream_providers import CHANGED_SINCE, UpstreamProvider, require_seen
from core.frozen import Frozen, replace

STOP_WINDOW: Final = timedelta(hours=24)
PLAN_LASTS: Final = timedelta(hours=24)
WHOLE_EVERY: Final = timedelta(hours=24)
LEASE: Final = timedelta(minutes=12)
"""How long a run that says nothing is let be. Each part of a run begins it anew. Longer than the longest reading without a part, that of
marks or groups: else two processes would take the run of a slow directory from each other for good.
"""
AGAIN_AFTER_FAULT: Final = timedelta(minutes=15)
RUN_KEPT: Final = timedelta(days=30)
COMPARES_EACH: Final = 4
MOST_RUNS_SHOWN: Final = 50
MOST_LEFT_OUT_SHOWN: Final = 500
MOST_OPEN: Final = 20_000
"""Of those about whom an owner may decide."""
MOST_PEOPLE_SHOWN: Final = 1000
STAYS_MEMBER: Final = "stays_member"
COMES_BACK: Final = "comes_back"
MAY_MORE: Final = "may_more"
OWNER: Final = "owner"
"""What happens to those about whom an owner decides, or what they are."""
_SMALL_NUMBER: Final = 5
_ONE_IN: Final = 10


class RunKind(StrEnum):
    """What a sync run reads."""

    PLAN = "plan"
    """Reads everybody, and does nothing."""
    WHOLE = "whole"
    CHANGES = "changes"
    """Reads those whom the directory has changed since the last run."""
    IDENTITIES = "identities"
    """Reads identities alone, and so finds out who is gone."""

    @property
    def finds_gone(self) -> bool:
        return self is not RunKind.CHANGES

    @property
    def reads_everything(self) -> bool:
        """Whether it looks at everybody, and at all that the directory says of them."""
        return self in {RunKind.PLAN, RunKind.WHOLE}


class RunState(StrEnum):
    """The state of a sync run."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    WAITING = "waiting"
    """For an owner: whether it goes on."""
    AGREED = "agreed"
    """An owner has let it go on, and another run carries it out."""
    LEFT = "left"
    """An owner has said that it does not go on."""
    OVER = "over"
    """A newer run has taken its place."""


class DecidedAbout(StrEnum):
    """What an owner has decided about people whom a run has left out."""

    TAKEN_OVER = "taken_over"
    """From SCIM."""
    KEPT = "kept"
    """As the organization's own members."""
    ENDED = "ended"


class RunCounts(Frozen, kw_only=True):
    read: int = 0
    came: int = 0
    """Also those who have come back."""
    changed: int = 0
    ended: int = 0
    held_back: int = 0
    """Those who would end, if an owner let the run go on."""
    left_out: int = 0
    reasons: Mapping[str, int] = {}
    """How many were left out for each reason."""
    teams: int = 0
    """Teams that were made, filled otherwise, or have gone."""


class DirectoryRun(Frozen, kw_only=True):
    """A run that would deprovision too many users stops and asks an owner, and so does the first one. The owner approves a digest of names
    and what happens to them.
    """

    id: DirectoryRunId
    organization: OrganizationId
    connection: UpstreamProviderId
    kind: RunKind
    state: RunState
    started_at: datetime
    ended_at: datetime | None = None
    counts: RunCounts = RunCounts()
    fault: str = ""
    """Why it failed."""
    settings_digest: bytes
    """The settings that it began with."""
    digest: bytes | None = None
    """Of names and what happens, for a run that waits for an owner."""

    def may_be_carried_out(self, now: datetime) -> bool:
        """Whether an owner's word about it still counts: a day to give it, and a day to find the directory."""
        return now - self.started_at <= 2 * PLAN_LASTS


class NamedAs(StrEnum):
    """Why a sync run lists a person."""

    END = "end"
    """It would end the person."""
    LEFT_OUT = "left_out"
    COMES = "comes"
    """The plan lets the person in."""


class RunPerson(Frozen, kw_only=True):
    """A person whom a run names: one whom it would end or let in, or has left out."""

    what: NamedAs
    reason: str
    named: str
    user: UserId | None = None
    external_id: bytes | None = None


class DirectoryStep(Frozen, kw_only=True):
    """How far a connection has come, and the lease of whoever makes its next run."""

    connection: UpstreamProviderId
    organization: OrganizationId
    holder: UUID
    runs: int
    wants_whole: bool
    whole_at: datetime | None
    marks: LdapMarks | None
    agreed_digest: bytes | None
    """The settings for which an owner has let the first run go on."""
    agreed_run: DirectoryRunId | None
    """The run that an owner has let go on, while no run has carried it out."""
    held_digest: bytes | None
    """The digest of what the last run that stopped would have done."""
    held_since: datetime | None
    """None for one that an owner has left: nobody is asked again about the same."""
    held_run: DirectoryRunId | None = None
    """The run that names whom the last stop holds. They end by an owner's word alone."""
    next_at: datetime | None = None
    """When the run was due. Somebody who starts a run meanwhile changes it."""
    activated_at: datetime | None = None
    """When the settings became active with which the run was claimed."""

    def has_asked(self, digest: bytes, now: datetime) -> bool:
        """Whether an owner has been asked about exactly this, today or for good."""
        return was_asked(self.held_digest, self.held_since, digest, now)


def was_asked(held: bytes | None, since: datetime | None, digest: bytes, now: datetime) -> bool:
    """`since` is None for a stop that an owner has left: nobody is asked again about the same."""
    return held == digest and (since is None or now - since <= PLAN_LASTS)


def next_kind(step: DirectoryStep, settings_digest: bytes, now: datetime) -> RunKind:
    """The first run with these settings is a plan."""
    if step.agreed_digest != settings_digest:
        return RunKind.PLAN
    if step.wants_whole or step.agreed_run is not None or step.whole_at is None or step.marks is None:
        return RunKind.WHOLE
    if now - step.whole_at >= WHOLE_EVERY:
        return RunKind.WHOLE
    return RunKind.IDENTITIES if step.runs % COMPARES_EACH == COMPARES_EACH - 1 else RunKind.CHANGES


def must_stop(ending: int, ended_lately: int, listed: int) -> bool:
    """More than a tenth of those whom the directory lists, or than five where that is more, would have ended within the window. A directory
    that names nobody any more has lost its rights, and not its people.
    """
    whole = ending + ended_lately
    if ending == 0:
        return False
    return ending >= listed > 1 or (whole > _SMALL_NUMBER and whole * _ONE_IN > listed + ended_lately)


class RunTally:
    """Counts what a run does, and names those whom it leaves out and whom it would end. It grows with these alone."""

    def __init__(self) -> None:
        self.read = self.came = self.changed = self.ended = self.held_back = self.teams = 0
        self.reasons: dict[str, int] = {}
        self.left_out: list[RunPerson] = []
        self.open: list[RunPerson] = []
        self._came = sha256()

    def leave_out(self, named: str, reason: WhyLeftOut, user: UserId | None = None, external_id: bytes | None = None) -> None:
        """`user` and `external_id` are of somebody about whom an owner may decide."""
        self.reasons[reason.value] = self.reasons.get(reason.value, 0) + 1
        if user is not None:
            if len(self.open) < MOST_OPEN:
                self.open.append(RunPerson(what=NamedAs.LEFT_OUT, reason=reason.value, named=named, user=user, external_id=external_id))
        elif len(self.left_out) < MOST_LEFT_OUT_SHOWN:
            self.left_out.append(RunPerson(what=NamedAs.LEFT_OUT, reason=reason.value, named=named))

    def note(self, decision: PersonDecision) -> None:
        """What is done for one person. Who ends is noted at the end of the run."""
        if decision.left_out is not None:
            met = decision.met if decision.left_out is WhyLeftOut.LISTED_BY_SCIM else None
            user = None if met is None else met.user
            self.leave_out(decision.person.named, decision.left_out, user, None if met is None else decision.person.external_id)
        if decision.fate in {PersonFate.COMES, PersonFate.RETURNS}:
            self.came += 1
            self._came.update(f"{decision.fate.value} {decision.person.subject} {decision.person.email}\n".encode("utf-8", "surrogatepass"))
        elif decision.fate is PersonFate.CHANGES:
            self.changed += 1

    @property
    def counts(self) -> RunCounts:
        return RunCounts(
            read=self.read,
            came=self.came,
            changed=self.changed,
            ended=self.ended,
            held_back=self.held_back,
            left_out=sum(self.reasons.values()),
            reasons=dict(self.reasons),
            teams=self.teams,
        )

    def digest(self, ends: Iterable[RunPerson]) -> bytes:
        """Of all that an owner lets go on."""
        return sha256(self._came.digest() + digest_of_ends(ends)).digest()


def digest_of_ends(ends: Iterable[RunPerson]) -> bytes:
    lines = sorted(f"{(one.external_id or b'').hex()} {one.reason} {one.named}" for one in ends)
    return sha256("\n".join(lines).encode("utf-8", "surrogatepass")).digest()


def end_of(external_id: bytes, user: UserId, named: str, why: ReasonForEnd) -> RunPerson:
    return RunPerson(what=NamedAs.END, reason=why.value, named=named, user=user, external_id=external_id)


def coming_by(decision: PersonDecision) -> RunPerson:
    """Whom a plan lets in."""
    return RunPerson(what=NamedAs.COMES, reason=decision.fate.value, named=decision.person.called, external_id=decision.person.external_id)


def begun(step: DirectoryStep, run: DirectoryRunId, provider: bytes, now: datetime) -> DirectoryRun:
    return DirectoryRun(
        id=run,
        organization=step.organization,
        connection=step.connection,
        kind=next_kind(step, provider, now),
        state=RunState.RUNNING,
        started_at=now,
        settings_digest=provider,
    )


def agreed(run: DirectoryRun, provider: UpstreamProvider, seen: str, now: datetime) -> DirectoryRun:
    """Raises `BadRequest` for what is no digest, and `Conflict` for a run that does not wait, that is more than a day old, that others have
    planned otherwise, or whose connection has other settings by now.
    """
    _require_waiting(run)
    require_seen(seen, run.digest or b"")
    if provider.digest != run.settings_digest:
        raise Conflict(CHANGED_SINCE, words="settings_changed")
    if now - run.started_at > PLAN_LASTS:
        raise Conflict("The plan is more than a day old: start another run", words="run_too_old")
    return replace(run, state=RunState.AGREED)


def is_decidable(run: DirectoryRun, newest: Sequence[DirectoryRun], now: datetime) -> bool:
    """Whether an owner may decide about people whom the run has left out: it is the last one that has read everybody, because a later one
    may have found them otherwise. A plan has read everybody, too, but counts for nothing yet. `newest` are the runs of the connection, the
    newest first.
    """
    last = next((one for one in newest if one.kind is RunKind.WHOLE and one.state not in {RunState.RUNNING, RunState.FAILED}), None)
    return last is not None and last.id == run.id and now - run.started_at <= PLAN_LASTS


def require_decidable(run: DirectoryRun, newest: Sequence[DirectoryRun], provider: UpstreamProvider, now: datetime) -> None:
    """For an owner's word about people whom a run has left out. Raises `BadRequest` and `Conflict`."""
    require_kept_in_step(provider)
    if provider.digest != run.settings_digest:
        raise Conflict(CHANGED_SINCE, words="settings_changed")
    if not is_decidable(run, newest, now):
        raise Conflict("People can be reviewed only after today's last complete sync run did not contain them", words="run_not_decidable")


def left(run: DirectoryRun) -> DirectoryRun:
    """Raises `Conflict`."""
    _require_waiting(run)
    return replace(run, state=RunState.LEFT)


def require_kept_in_step(provider: UpstreamProvider) -> None:
    """Raises `BadRequest`."""
    if provider.ldap is None or not provider.ldap.keeps_in_step or not provider.enabled:
        raise BadRequest("Directory sync is turned off for this identity provider: turn it on first", words="run_off")


def run_started(provider: UpstreamProvider, actor: Actor) -> Event:
    return _event("organization.upstream_provider.run.started", provider.organization, provider.id, actor, {"name": provider.name})


def run_stopped(run: DirectoryRun, name: str) -> Event:
    return _about("organization.upstream_provider.run.stopped", run, name, SYSTEM)


def run_agreed(run: DirectoryRun, name: str, actor: Actor) -> Event:
    return _about("organization.upstream_provider.run.agreed", run, name, actor)


def run_left(run: DirectoryRun, name: str, actor: Actor) -> Event:
    return _about("organization.upstream_provider.run.left", run, name, actor)


_DECIDED: Final[Mapping[DecidedAbout, str]] = {
    DecidedAbout.TAKEN_OVER: "organization.upstream_provider.people.taken_over",
    DecidedAbout.KEPT: "organization.upstream_provider.people.kept",
    DecidedAbout.ENDED: "organization.upstream_provider.people.ended",
}


def people_decided(what: DecidedAbout, run: DirectoryRun, name: str, people: Sequence[RunPerson], actor: Actor) -> Event:
    facts: Mapping[str, str | int] = {"name": name, "run_id": str(run.id), "people": len(people), "digest": digest_of_ends(people).hex()}
    return _event(_DECIDED[what], run.organization, run.connection, actor, facts)


def run_failed(run: DirectoryRun, name: str) -> Event:
    facts = {"name": name, "run_id": str(run.id), "fault": run.fault}
    return _event("organization.upstream_provider.run.failed", run.organization, run.connection, SYSTEM, facts)


def _require_waiting(run: DirectoryRun) -> None:
    if run.state is not RunState.WAITING:
        raise Conflict("The sync run does not require approval", words="run_not_waiting")


def _about(event: str, run: DirectoryRun, name: str, actor: Actor) -> Event:
    counts = run.counts
    facts = {
        "name": name,
        "run_id": str(run.id),
        "kind": run.kind.value,
        "came": counts.came,
        "changed": counts.changed,
        "ends": counts.held_back,
        "digest": "" if run.digest is None else run.digest.hex(),
    }
    return _event(event, run.organization, run.connection, actor, facts)


def _event(name: str, organization: OrganizationId, connection: UpstreamProviderId, actor: Actor, facts: Mapping[str, str | int]) -> Event:
    return Event(name, actor, Target("upstream_provider", str(connection)), organization, dict(facts))


def parts(of: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    return (of[at : at + size] for at in range(0, len(of), size))
