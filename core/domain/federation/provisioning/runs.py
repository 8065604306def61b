"""Provisioning runs: what a full sync would change in an application's system, and has changed."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Self
from uuid import UUID

from core.domain.errors import Conflict
from core.domain.federation.directory_runs.runs import PLAN_LASTS, NamedAs, RunPerson, digest_of_ends, was_asked
from core.domain.federation.provisioning.connections import MappedAttribute, ProvisioningDialect
from core.domain.federation.provisioning.people import WhyGone, WhyNotThere
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ProvisioningRunId, ServiceId, TeamId, UserId
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.upstream_providers import CHANGED_SINCE, require_seen
from core.frozen import Frozen, replace

PROVISIONING_TOPIC: Final = "provisioning"
PEOPLE_A_PAGE: Final = 100
"""Of theirs, as they are listed."""
PEOPLE_AT_ONCE: Final = 15
"""Of ours, whose facts one statement reads: more would hold up the event loop."""
AGAIN_AFTER_FAULT: Final = timedelta(minutes=15)
FAILING_FOR: Final = timedelta(hours=24)
"""Whoever fails for so long is stopped, and the owners hear of it."""
PROVISIONING_LEASE: Final = timedelta(minutes=5)
LONGEST_REST: Final = timedelta(hours=1)
"""The longest that an answer may make us wait."""
PROVISIONING_RUN_KEPT: Final = timedelta(days=30)
MOST_RUNS_SHOWN: Final = 50
MOST_LEFT_OUT_NAMED: Final = 1000
EXCHANGES_KEPT: Final = 50


class ProvisioningRunKind(StrEnum):
    """The scope of a sync run."""

    PLAN = "plan"
    """Looks at everybody, and does nothing."""
    WHOLE = "whole"
    CHANGES = "changes"
    """The people whom marks name."""


class ProvisioningRunState(StrEnum):
    """The state of a sync run."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    WAITING = "waiting"
    """For an owner: whether it goes on."""
    AGREED = "agreed"
    LEFT = "left"
    OVER = "over"
    """A newer run has taken its place."""


class DoneThere(StrEnum):
    """What a sync run does to a person, or would do."""

    MADE = "made"
    MATCHED = "matched"
    CHANGED = "changed"
    ENDED = "ended"
    LEFT_OUT = "left_out"
    OVERWRITTEN = "overwritten"
    """It was different there."""


class ProvisioningWork(Frozen, kw_only=True):
    """A connection, as whoever has its lease works for it."""

    connection: ProvisioningConnectionId
    organization: OrganizationId
    organization_slug: str
    service: ServiceId
    service_slug: str
    service_name: str
    base_url: str
    sealed_token: bytes | None
    mapping: Sequence[MappedAttribute]
    left_out: Sequence[str]
    teams: Sequence[TeamId] | None
    dialect: ProvisioningDialect
    is_ending: bool
    """Its owner has deleted it and wants everybody ended there."""
    is_draft: bool = False
    """Somebody has drafted other settings, which no owner has activated."""
    digest: bytes
    """Of the settings that an owner has activated."""
    holder: UUID
    whole_due_at: datetime | None
    whole_at: datetime | None
    failing_since: datetime | None
    agreed_digest: bytes | None
    agreed_run: ProvisioningRunId | None
    held_run: ProvisioningRunId | None
    held_digest: bytes | None
    held_since: datetime | None
    turn_over_at: datetime | None = None
    """When its last turn ran out, with more to do."""

    def has_asked(self, digest: bytes, now: datetime) -> bool:
        return was_asked(self.held_digest, self.held_since, digest, now)

    def kind(self, now: datetime) -> ProvisioningRunKind | None:
        """Which look at everybody is due. The first with these settings is a plan. None where single changes alone are."""
        if self.whole_due_at is None or self.whole_due_at > now:
            return None
        return ProvisioningRunKind.WHOLE if self.agreed_digest == self.digest else ProvisioningRunKind.PLAN


class ProvisioningRun(Frozen, kw_only=True):
    """The first run with some settings is a preview, and one that would deprovision too many users stops; an owner approves both by the
    digest of what they have seen, as with directories (0193).
    """

    id: ProvisioningRunId
    connection: ProvisioningConnectionId
    kind: ProvisioningRunKind
    state: ProvisioningRunState
    begun_at: datetime
    ended_at: datetime | None = None
    made: int = 0
    matched: int = 0
    changed: int = 0
    overwritten: int = 0
    ended: int = 0
    left_out: int = 0
    unchanged: int = 0
    held_back: int = 0
    """Those who would end, if an owner let the run go on."""
    adoptable: int = 0
    """Those of the left out whose address counts here, and whose account there has another `externalId`."""
    adopts: bool = False
    """An owner lets these take the accounts over."""
    why: str | None = None
    """Why it failed."""
    settings_digest: bytes
    digest: bytes | None = None
    """Of names and what happens, for a run that waits for an owner."""

    def may_be_carried_out(self, now: datetime) -> bool:
        return now - self.begun_at <= 2 * PLAN_LASTS


class ProvisioningRunPerson(Frozen, kw_only=True):
    """Somebody whom a run names."""

    what: DoneThere
    why: str | None = None
    user: UserId | None = None
    far_id: str | None = None
    attributes: Sequence[str] = ()
    """The names of those that were different there, or of those that would be written."""
    former_external_id: str | None = None
    """The other `externalId` of the account there that the person takes over, or could."""
    named: str | None = None
    """The address today. It is read, and never kept."""
    number: int = 0
    """The place among those whom the run names."""

    @property
    def is_adoptable(self) -> bool:
        """Whether an owner may let the person take over the account there, which has another `externalId`."""
        return self.what is DoneThere.LEFT_OUT and self.why == WhyNotThere.OTHER_EXTERNAL_ID and self.former_external_id is not None


class ProvisioningTally:
    """Counts what a run does, and keeps the names of the page at hand."""

    def __init__(self) -> None:
        self.counts: dict[DoneThere, int] = dict.fromkeys(DoneThere, 0)
        self.unchanged = self.held_back = self.named = 0
        self.adoptable = 0
        self._left_out = 0
        self._names: list[ProvisioningRunPerson] = []
        # A digest over the one before, so that another process goes on with it.
        self._coming = b""

    def note(self, person: ProvisioningRunPerson) -> None:
        self.counts[person.what] += 1
        if person.what in {DoneThere.MADE, DoneThere.MATCHED}:
            said = [person.what.value, str(person.user), person.far_id, *person.attributes]
            self._come(json.dumps(said).encode())
        if person.what is DoneThere.LEFT_OUT:
            self._left_out += 1
            if self._left_out > MOST_LEFT_OUT_NAMED:
                return
        self._names.append(person)

    def note_planned(self, person: ProvisioningRunPerson | None) -> None:
        """Of a plan. None: nothing would be sent of the person. Whoever may be adopted is named in any case, for an owner's word."""
        if person is None:
            self.unchanged += 1
        elif person.is_adoptable:
            self.adoptable += 1
            self.counts[DoneThere.LEFT_OUT] += 1
            said = ["adoptable", str(person.user), person.far_id, person.former_external_id]
            self._come(json.dumps(said).encode())
            self._names.append(person)
        else:
            self.note(person)

    def _come(self, said: bytes) -> None:
        self._coming = sha256(self._coming + said).digest()

    def state(self) -> dict[str, Any]:
        """For the next turn, in which `of_state` makes the same of it: when all names were taken."""
        counts = {what.value: count for what, count in self.counts.items()}
        numbers = {"unchanged": self.unchanged, "held_back": self.held_back, "named": self.named, "left_out": self._left_out}
        return {"counts": counts, **numbers, "adoptable": self.adoptable, "coming": self._coming.hex()}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        made = cls()
        made.counts.update({DoneThere(what): count for what, count in state["counts"].items()})
        made.unchanged, made.held_back, made.named = state["unchanged"], state["held_back"], state["named"]
        made.adoptable = state["adoptable"]
        made._left_out, made._coming = state["left_out"], bytes.fromhex(state["coming"])
        return made

    def take_names(self) -> tuple[int, Sequence[ProvisioningRunPerson]]:
        """Those who were noted since the last call, and behind how many they stand: a run holds no names of earlier pages."""
        names, self._names = self._names, []
        before, self.named = self.named, self.named + len(names)
        return before, names

    def counted(self, run: ProvisioningRun) -> ProvisioningRun:
        counts = self.counts
        return replace(
            run,
            made=counts[DoneThere.MADE],
            matched=counts[DoneThere.MATCHED],
            changed=counts[DoneThere.CHANGED],
            overwritten=counts[DoneThere.OVERWRITTEN],
            ended=counts[DoneThere.ENDED],
            left_out=counts[DoneThere.LEFT_OUT],
            unchanged=self.unchanged,
            held_back=self.held_back,
            adoptable=self.adoptable,
        )

    def digest(self, ends: Sequence[RunPerson]) -> bytes:
        """Of all that an owner lets go on."""
        return sha256(self._coming + digest_of_ends(ends)).digest()


def end_there(user: UserId, why: WhyGone) -> RunPerson:
    """An end, for the digest that ends at directories have, too."""
    return RunPerson(what=NamedAs.END, reason=why.value, named="", user=user, external_id=user.bytes)


def left_out_there(user: UserId, why: WhyNotThere | str, far_id: str | None = None) -> ProvisioningRunPerson:
    return ProvisioningRunPerson(what=DoneThere.LEFT_OUT, why=str(why), user=user, far_id=far_id)


def begun_there(work: ProvisioningWork, run: ProvisioningRunId, kind: ProvisioningRunKind, now: datetime) -> ProvisioningRun:
    return ProvisioningRun(
        id=run,
        connection=work.connection,
        kind=kind,
        state=ProvisioningRunState.RUNNING,
        begun_at=now,
        settings_digest=work.digest,
    )


def agreed_there(run: ProvisioningRun, work: ProvisioningWork, seen: str, now: datetime, *, adopts: bool = False) -> ProvisioningRun:
    """`adopts`: those whom the run names as adoptable take the accounts over. Raises `BadRequest` for what is no digest, and `Conflict` for
    a run that does not wait, that is more than a day old, that others have planned otherwise, or whose connection has other settings by
    now, be it in a draft.
    """
    _require_waiting(run)
    require_seen(seen, run.digest or b"")
    if work.is_draft or work.digest != run.settings_digest:
        raise Conflict(CHANGED_SINCE, words="settings_changed")
    if now - run.begun_at > PLAN_LASTS:
        raise Conflict("The plan is more than a day old: start another run", words="run_too_old")
    return replace(run, state=ProvisioningRunState.AGREED, adopts=adopts and run.adoptable > 0)


def left_there(run: ProvisioningRun) -> ProvisioningRun:
    """Raises `Conflict`."""
    _require_waiting(run)
    return replace(run, state=ProvisioningRunState.LEFT)


def _require_waiting(run: ProvisioningRun) -> None:
    if run.state is not ProvisioningRunState.WAITING:
        raise Conflict("The sync run does not require approval", words="run_not_waiting")


def provisioning_event(name: str, work: ProvisioningWork, facts: dict[str, str | int], actor: Actor = SYSTEM) -> Event:
    """About an application's connection outwards."""
    about = {"service_slug": work.service_slug, **facts}
    return Event(name, actor, Target("service", str(work.service)), work.organization, about)


def person_adopted(work: ProvisioningWork, user: UserId, person: ProvisioningRunPerson) -> Event:
    """A person has taken over an account there by an owner's word. What the account was tied to before identifies the person, so it is
    forgotten with them.
    """
    return Event(
        "service.provisioning.person.adopted",
        SYSTEM,
        Target("user", str(user)),
        work.organization,
        {"service_slug": work.service_slug, "run_id": str(work.agreed_run)},
        personal={"far_id": person.far_id or "", "former_external_id": person.former_external_id or ""},
        person=user,
    )


def run_facts(run: ProvisioningRun) -> dict[str, str | int]:
    return {
        "run_id": str(run.id),
        "kind": run.kind.value,
        "made": run.made,
        "matched": run.matched,
        "changed": run.changed,
        "ends": run.held_back,
        "adopts": run.adoptable if run.adopts else 0,
        "digest": "" if run.digest is None else run.digest.hex(),
    }
