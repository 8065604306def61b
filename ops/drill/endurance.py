"""`python -m ops.drill endurance`: all actors and all routes under load, with a fault every minute.

The faults of `failover` take turns with two of the server's own: it hangs, and it loses all its connections to PostgreSQL. After each, the
drill compares what clients were told with what is there.
"""

import argparse
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

import trio

from ops.bench import processes
from ops.bench.harness import Server, directory, serving
from ops.bench.receivers import receivers
from ops.bench.report import Figure, at_least, at_most, complain
from ops.drill.clients import SETTINGS, prepared
from ops.drill.cluster import Cluster, running
from ops.drill.failover import Drill, Plan, Round, counted
from ops.drill.faults import FAULTS, Fault, Outage
from ops.drill.visiting import Broke, Visitor, visitor_of
from ops.drill.watching import Watcher

# After an outage, an answer may still be an error for this long.
ERRORS_AFTER: Final = 3.0
MOST_MEMORY: Final = 1.1
MOST_DESCRIPTORS: Final = 5
# A person is signed in once, so half an hour of sign-ins needs so many.
PEOPLE_A_MINUTE: Final = 500
_END_CONNECTIONS: Final = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postern'"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ops.drill endurance", description=__doc__)
    parser.add_argument("--minutes", type=int, default=30, help="a fault in each (default %(default)s)")
    parser.add_argument("--detection", type=float, default=5.0, help="seconds until a standby is promoted (default %(default)s)")
    parser.add_argument("--no-record", action="store_true", help="leave docs/benchmarks.md alone")
    return parser.parse_args(arguments)


@dataclass(frozen=True, slots=True)
class ServerFaults:
    """What happens to the server itself; the database stays."""

    server: Server

    async def hang(self, _cluster: Cluster, detection: float) -> Outage:
        """The server stands still (SIGSTOP), then goes on."""
        began = trio.current_time()
        processes.send(self.server.pids(), signal.SIGSTOP)
        await trio.sleep(detection)
        processes.send(self.server.pids(), signal.SIGCONT)
        return Outage(began, trio.current_time())

    async def connections(self, cluster: Cluster, _detection: float) -> Outage:
        """PostgreSQL ends all connections at once, as an operator can."""
        began = trio.current_time()
        await trio.to_thread.run_sync(cluster.ask, _END_CONNECTIONS)
        return Outage(began, trio.current_time())

    def all(self) -> Mapping[str, Fault]:
        return {**FAULTS, "hang": self.hang, "connections": self.connections}


async def endurance(minutes: int, detection: float) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        cluster = await stack.enter_async_context(running(place / "servers"))
        sink = await stack.enter_async_context(receivers())
        data_dir = place / "postern"
        data_dir.mkdir()
        mails = data_dir / "mail"
        server = await stack.enter_async_context(
            serving(data_dir, settings={**SETTINGS, "POSTERN_MAIL": f"file:{mails}"}, database_url=cluster.url)
        )
        material = await prepared(server, sink, strangers=2_000 + PEOPLE_A_MINUTE * minutes)
        visitor = await visitor_of(server, next(material.people))
        watcher = Watcher(server)
        drill = Drill(server, cluster, sink, material, mails, Plan(detection=detection))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(visitor.visit)
            nursery.start_soon(watcher.watch)
            rounds = await _minute_by_minute(drill, ServerFaults(server).all(), minutes)
            nursery.cancel_scope.cancel()
    return figures(rounds, visitor, watcher)


async def _minute_by_minute(drill: Drill, faults: Mapping[str, Fault], minutes: int) -> Sequence[tuple[str, Round]]:
    rounds = []
    began = trio.current_time()
    for minute, (name, fault) in enumerate(islice(cycle(faults.items()), minutes), 1):
        ends = began + 60 * minute
        rounds.append((name, await drill.once(f"{minute} of {minutes}, {name}", fault, ends - 15)))
        await trio.sleep_until(max(ends, trio.current_time()))
    return rounds


def outside(broke: Sequence[Broke], outages: Sequence[Outage]) -> Sequence[Broke]:
    """Those that no outage excuses: none was there from the request's beginning to its end, nor had just ended."""
    return [one for one in broke if not any(out.began <= one.ended and one.began <= out.back + ERRORS_AFTER for out in outages)]


def figures(rounds: Sequence[tuple[str, Round]], visitor: Visitor, watcher: Watcher) -> Sequence[Figure]:
    early, late = watcher.early, watcher.late
    outages = [one.outage for _, one in rounds]
    unexcused = outside(visitor.broke, outages)
    fives = [one for one in visitor.broke if one.code not in {"503", "no answer"}]
    lost = sum((Counter(one.truth.lost) for _, one in rounds), Counter[str]())
    twice = sum((Counter(one.truth.twice) for _, one in rounds), Counter[str]())
    surprises = sum((Counter(one.surprises) for _, one in rounds), Counter[str]())
    late_actors = Counter(actor for _, one in rounds for actor in one.missing)
    slowest_name, slowest = max(rounds, key=lambda named: max(named[1].actors.values(), default=0.0))
    asked = sum(len(one.asked) for _, one in rounds)
    for one in unexcused:
        complain(f"no outage excuses {one}")
    return [
        Figure("faults", len(rounds), beside=counted(Counter(name for name, _ in rounds))),
        Figure("requests of the clients after a fault", asked),
        Figure("rounds through all routes", visitor.rounds, bar=at_least(1), beside=f"{visitor.answers.total()} requests"),
        Figure("answers 500", len(fives), bar=at_most(0), beside=counted(Counter(one.what for one in fives))),
        Figure("failed outside of every outage", len(unexcused), bar=at_most(0), beside=counted(Counter(one.what for one in unexcused))),
        Figure("answered as done and lost", lost.total(), bar=at_most(0), beside=counted(lost)),
        Figure("done twice", twice.total(), bar=at_most(0), beside=counted(twice)),
        Figure("valid requests that were refused", surprises.total(), bar=at_most(0), beside=counted(surprises)),
        Figure(
            "memory, last third against first",
            late.megabytes / early.megabytes,
            bar=at_most(MOST_MEMORY),
            beside=f"{early.megabytes:.0f} → {late.megabytes:.0f} MiB",
        ),
        Figure(
            "more descriptors in the last third",
            late.descriptors - early.descriptors,
            bar=at_most(MOST_DESCRIPTORS),
            beside=f"{early.descriptors} → {late.descriptors}",
        ),
        Figure("an actor works after the outage, at most", max(slowest.actors.values(), default=0.0), "s", beside=slowest_name),
        Figure("faults after which an actor was not seen to work in 45 s", late_actors.total(), beside=counted(late_actors)),
    ]
