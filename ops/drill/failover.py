"""`python -m ops.drill failover`: the primary goes away under load, and the drill counts what that costs whom."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from ops.bench.harness import Server, directory, serving
from ops.bench.receivers import Receivers, receivers
from ops.bench.report import Bar, Figure, at_most, complain
from ops.drill.clients import SETTINGS, Clients, Material, prepared
from ops.drill.cluster import Cluster, NoSuchDisk, running
from ops.drill.faults import FAULTS, SUDDEN, Fault, Outage
from ops.drill.ledger import Asked, Ledger
from ops.drill.truth import Truth, looked_up
from ops.drill.working import Actors

# Seconds of load before a fault, and after it until the clients stop.
BEFORE: Final = 3.0
AFTER: Final = 4.0
# The bars, in seconds: of errors after the outage, and of an actor after the database.
ERRORS_AFTER: Final = 3.0
ACTORS_AFTER: Final = 10.0
# An actor may take this long before the drill gives it up.
ACTORS_PATIENCE: Final = 45.0
# With asynchronous standbys alone, they are this many seconds behind when the fault comes.
BEHIND: Final = 1.0
# And lack at least this many things. More than the clients have under way at a time, since these may be there already.
ALONE: Final = 20


@dataclass(frozen=True, slots=True)
class Plan:
    faults: Sequence[str] = tuple(FAULTS)
    times: int = 3
    detection: float = 5.0
    asynchronous: bool = True
    """Also the sudden faults with asynchronous standbys alone."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the database servers."""


@dataclass(frozen=True, slots=True)
class Round:
    """One fault, once."""

    outage: Outage
    asked: Sequence[Asked]
    """From the fault on."""
    codes: Mapping[str, int]
    surprises: Mapping[str, int]
    truth: Truth
    actors: Mapping[str, float]
    missing: set[str]
    ready_after: float
    backlog: float

    @property
    def errors_after(self) -> float:
        """Until when there were errors, in seconds after the database was back. Negative: the last error came before that."""
        failed = [one.ended for one in self.asked if one.failed]
        return max(failed) - self.outage.back if failed else -self.outage.seconds

    @property
    def slowest(self) -> float:
        return max((one.ended - one.began for one in self.asked), default=0.0)

    @property
    def slowest_actor(self) -> float:
        return max(self.actors.values(), default=0.0) if not self.missing else ACTORS_PATIENCE


async def failover(plan: Plan) -> Sequence[Figure]:
    """Three PostgreSQL servers, of which one follows synchronously and one asynchronously. Under load their primary is killed, stopped, cut
    off, moved by an operator, made read-only, and filled up. Then the sudden ones again, with two asynchronous standbys that are a second
    behind.
    """
    figures = await _with(plan, plan.faults, synchronous=True)
    if plan.asynchronous and (sudden := [name for name in plan.faults if name in SUDDEN]):
        figures += await _with(plan, sudden, synchronous=False)
    return figures


async def _with(plan: Plan, faults: Iterable[str], *, synchronous: bool) -> list[Figure]:
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        cluster = await stack.enter_async_context(running(place / "servers", synchronous=synchronous, settings=dict(plan.settings)))
        sink = await stack.enter_async_context(receivers())
        data_dir = place / "postern"
        data_dir.mkdir()
        settings = {**SETTINGS, "POSTERN_MAIL": f"file:{data_dir / 'mail'}"}
        server = await stack.enter_async_context(serving(data_dir, settings=settings, database_url=cluster.url))
        drill = Drill(server, cluster, sink, await prepared(server, sink), data_dir / "mail", plan)
        for name in faults:
            what = name if synchronous else f"{name}, asynchronous"
            try:
                rounds = [await drill.once(what, FAULTS[name]) for _ in range(plan.times)]
            except* NoSuchDisk as refused:
                complain(f"{what}: skipped, {refused.exceptions[0]}")
            else:
                figures += _figures(what, rounds, synchronous=synchronous)
    return figures


@dataclass(frozen=True, slots=True)
class Drill:
    """A server, the cluster behind it, and what its clients use."""

    server: Server
    cluster: Cluster
    sink: Receivers
    material: Material
    mails: Path
    plan: Plan

    async def once(self, what: str, fault: Fault, until: float = 0.0) -> Round:
        """The clients work at least until that moment."""
        self.sink.times.clear()
        clients, actors = Clients(self.server, self.material), Actors(self.server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(actors.watch)
            async with clients.at_work():
                await trio.sleep(BEFORE)
                if not self.cluster.synchronous:
                    self.cluster.primary.for_followers.cut()
                    await self._fall_behind(clients.ledger)
                outage = await fault(self.cluster, self.plan.detection)
                found = await actors.at_work(self.cluster, outage.back, ACTORS_PATIENCE)
                await trio.sleep_until(max(outage.back + AFTER, until))
            await self.cluster.repair()
            truth, backlog = await looked_up(self.cluster, clients, self.sink, self.mails)
            nursery.cancel_scope.cancel()
        asked = [one for one in clients.ledger.asked if one.ended >= outage.began]
        made = Round(
            outage=outage,
            asked=asked,
            codes=clients.ledger.codes(outage.began),
            surprises=clients.ledger.surprises(),
            truth=truth,
            actors=found,
            missing=actors.missing(found),
            ready_after=actors.ready_after(outage.back),
            backlog=backlog,
        )
        complain(f"{what}: {described(made)}")
        return made

    async def _fall_behind(self, ledger: Ledger) -> None:
        """Waits, on a busy machine longer than `BEHIND`, until the primary alone has what clients were told is done."""
        before = ledger.promised()
        await trio.sleep(BEHIND)
        while ledger.promised() < before + ALONE:  # noqa: ASYNC110 - the clients are others
            await trio.sleep(0.1)


def described(one: Round) -> str:
    truth = one.truth
    last = sorted((asked for asked in one.asked if asked.failed), key=lambda asked: asked.ended)[-2:]
    longest = sorted(one.asked, key=lambda asked: asked.began - asked.ended)[:2]
    return (
        f"outage {one.outage.seconds:.1f} s, errors until {one.errors_after:+.1f} s after it, slowest answer {one.slowest:.1f} s,"
        f" {counted(one.codes)}; surprises {counted(one.surprises)}; lost {counted(truth.lost)}; twice {counted(truth.twice)};"
        f" refused yet done {counted(truth.refused_yet_done)}; ended {truth.ended}; repeated {counted(truth.repeated)};"
        f" actors {one.slowest_actor:.1f} s ({', '.join(f'{name} {at:.1f}' for name, at in one.actors.items() if at > 2)}),"
        f" missing {sorted(one.missing)}; last errors {_timed(last, one.outage)};"
        f" longest {_timed(longest, one.outage)}; ready {one.ready_after:.1f} s; backlog {one.backlog:.1f} s"
    )


def _timed(requests: Iterable[Asked], outage: Outage) -> str:
    """From when to when, in seconds since the fault."""
    return ", ".join(f"{one.what} {one.began - outage.began:.1f} to {one.ended - outage.began:.1f} {one.code}" for one in requests)


def counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number) or "none"


def _figures(what: str, rounds: Sequence[Round], *, synchronous: bool) -> list[Figure]:
    def total(numbers: Callable[[Round], Mapping[str, int]]) -> Counter[str]:
        return sum((Counter(numbers(one)) for one in rounds), Counter())

    def barred(limit: float) -> Bar | None:
        return at_most(limit) if synchronous else None

    lost, twice = total(lambda one: one.truth.lost), total(lambda one: one.truth.twice)
    codes, refused_yet_done = total(lambda one: one.codes), total(lambda one: one.truth.refused_yet_done)
    surprises, repeated = total(lambda one: one.surprises), total(lambda one: one.truth.repeated)
    answered = sum(not asked.failed for one in rounds for asked in one.asked)
    outages = [one.outage.seconds for one in rounds]
    slowest = max(rounds, key=lambda one: one.slowest_actor)
    last = max(slowest.actors, key=lambda name: slowest.actors[name], default="")
    return [
        Figure(f"{what}: no server took writes, median", statistics.median(outages), "s"),
        Figure(f"{what}: answered as done and lost, of {answered} answers", lost.total(), bar=barred(0), beside=counted(lost)),
        Figure(f"{what}: done twice", twice.total(), bar=barred(0), beside=counted(twice)),
        Figure(f"{what}: refused, and done all the same", refused_yet_done.total(), bar=barred(0), beside=counted(refused_yet_done)),
        Figure(f"{what}: answers with errors", codes.total(), beside=counted(codes)),
        Figure(f"{what}: valid requests that were refused", surprises.total(), bar=barred(0), beside=counted(surprises)),
        Figure(f"{what}: last error after the outage, at most", max(0.0, *(one.errors_after for one in rounds)), "s", barred(ERRORS_AFTER)),
        Figure(f"{what}: slowest answer", max(one.slowest for one in rounds), "s"),
        Figure(f"{what}: ready again after the outage, at most", max(one.ready_after for one in rounds), "s"),
        Figure(
            f"{what}: every actor works after the outage, at most",
            slowest.slowest_actor,
            "s",
            barred(ACTORS_AFTER),
            beside=f"not yet: {', '.join(sorted(slowest.missing))}" if slowest.missing else last,
        ),
        Figure(f"{what}: sessions that an application lost", sum(one.truth.ended for one in rounds)),
        Figure(f"{what}: mails and deliveries that came again, under their id", repeated.total(), beside=counted(repeated)),
    ]
