"""`python -m ops.drill machines [fault …]`: the recipe of ops/machines as processes, of which one after the other goes away under load.

Two daemons with two processes each, by the recipe's postern.conf; nginx, HAProxy, etcd and Patroni, by its files, and by the lines of its
guide. What systemd would start again is started after its `RestartSec`. Exit status 1 when a bar did not hold: a read that failed, a change
that was lost or done twice, an error long after the outage, an alert that wakes somebody. Only root may start PostgreSQL as its user.
"""

import argparse
import inspect
import logging
import math
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import structlog
import trio
import yaml

from ops.bench import processes
from ops.bench.filling.fill import may_fill
from ops.bench.harness import COMMAND, READY, Server, directory, environment_of, ring
from ops.bench.receivers import Receivers, receivers
from ops.bench.report import ROOT, Figure, Outcome, at_most, busyness, complain, machine, table
from ops.drill.alarms import INTERVAL, Alarms
from ops.drill.clients import SETTINGS, Material, prepared
from ops.drill.patroni import USER, DatabaseMachine, Patroni, running
from ops.drill.proxies import FOLDER, WAYS, Proxy
from ops.drill.visitors import Visit, Visitors
from ops.free_ports import free_port

# Patroni notices within this time that the primary is gone.
DETECTION: Final = float(yaml.safe_load((ROOT / "ops" / "patroni" / "patroni.yaml").read_text())["bootstrap"]["dcs"]["ttl"])
# Of ops/postern.service. Proxies are given as long.
RESTART: Final = 1.0
BEFORE: Final = 6.0
AFTER: Final = 12.0
# When something goes away, eight sign-ins wait at a lock: for less than the second after which Postern gives up.
HELD: Final = 0.6
HOLDING: Final = 8
# Whoever waits longer than this notices.
SLOW: Final = 1.0
# Between the restarts of a release: longer than nginx leaves a daemon out.
SETTLED: Final = 3.0
# After everything is back, clients may still be told so long that it is not.
ERRORS_AFTER: Final = 3.0
# A proxy may still give requests to a process that has gone a moment ago.
A_MOMENT: Final = 0.5
PATIENCE: Final = 1800.0
_PATIENCE: Final = 120.0


class Daemon:
    """One `postern serve --processes 2`. When it has been killed, `start` starts it again at the same address."""

    def __init__(self, place: Path, settings: Mapping[str, str], processes_of_it: int = 2) -> None:
        place.mkdir()
        self._processes = processes_of_it
        self.place = place
        self.port = free_port()
        self.settings = {**settings, "POSTERN_BIND": f"127.0.0.1:{self.port}", "POSTERN_DATA_DIR": str(place)}
        self.server: Server | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        log = self.place / "daemon.log"
        with log.open("ab") as output:
            process = await trio.lowlevel.open_process(
                [str(COMMAND), "serve", "--processes", str(self._processes)],
                env=environment_of(None) | self.settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )
        self.server = Server(process, self.port, log, self.place, self.settings)
        await self.server.until(READY, 200, _PATIENCE)

    @property
    def running(self) -> Server:
        if self.server is None:
            raise AssertionError("the daemon was not started")
        return self.server

    async def stop(self) -> None:
        """As its service manager stops it: requests in flight are finished."""
        await self.running.stop()
        self.server = None

    async def kill(self) -> None:
        """Every process of it, at once."""
        if self.server is not None:
            processes.send(processes.tree(self.server.pid, without=None), signal.SIGKILL)
            await self.server.process.wait()
            self.server = None


@dataclass(slots=True)
class Writer:
    """Writes to the database, past Postern, again and again: it knows how long nobody could."""

    database: Patroni
    tries: list[tuple[float, float, bool]] = field(default_factory=list)
    """Of each, when it began, when it ended, and whether it wrote."""

    async def write(self) -> None:
        while True:
            began = trio.current_time()
            done = await trio.to_thread.run_sync(self._written, abandon_on_cancel=True)
            self.tries.append((began, trio.current_time(), done))
            await trio.sleep(0.1)

    def _written(self) -> bool:
        with suppress(psycopg.Error):
            self.database.ask("select pg_logical_emit_message(true, 'drill', '')")
            return True
        return False

    def back(self, since: float) -> float:
        """When writing was as usual again."""
        after = [one for one in self.tries if one[1] >= since]
        bad = [place for place, (began, ended, done) in enumerate(after) if not done or ended - began > SLOW]
        if not bad:
            return since
        rest = [ended for _, ended, done in after[bad[-1] :] if done]
        return rest[0] if rest else math.inf


@dataclass(slots=True)
class Recipe:
    """Machine-1 has the first of each, machine-2 the second."""

    daemons: Sequence[Daemon]
    proxies: Sequence[Proxy]
    database: Patroni
    visitors: Visitors = field(repr=False)
    going: trio.Event = field(default_factory=trio.Event)
    gone: trio.Event = field(default_factory=trio.Event)
    """Between these two, the fault takes away what it takes away."""
    back: float = 0.0
    """When the last part that was started again answered."""

    async def in_the_middle(self, nursery: trio.Nursery, kill: Callable[[], Awaitable[None]]) -> None:
        """Kills while sign-ins wait at a lock of ours."""
        held = [next(self.visitors.material.people) for _ in range(HOLDING)]
        with psycopg.connect(self.database.url_of(USER)) as connection:
            connection.execute("select from users where id = any(%s) for update", [[one.user for one in held]])
            for one in held:
                nursery.start_soon(self.visitors.sign_in_as, one)
            with trio.move_on_after(HELD):
                while await trio.to_thread.run_sync(_waiting, self.database) < HOLDING:  # noqa: ASYNC110 - another process works
                    await trio.sleep(0.02)
            self.going.set()
            await kill()
            self.gone.set()
            with suppress(psycopg.OperationalError):
                connection.rollback()

    async def begin(self) -> None:
        """What a fault took away comes back."""
        async with trio.open_nursery() as nursery:
            for daemon in self.daemons:
                if daemon.server is None:
                    nursery.start_soon(daemon.start)
            for proxy in self.proxies:
                if not proxy.runs:
                    nursery.start_soon(proxy.start)
        await self.database.repair()

    async def later(self, start: Callable[[], Awaitable[None]]) -> None:
        """Its service manager starts it again."""
        await trio.sleep(RESTART)
        await start()
        self.back = trio.current_time()


Fault = Callable[[Recipe, trio.Nursery], Awaitable[None]]


async def worker(recipe: Recipe, nursery: trio.Nursery) -> None:
    """One of the two serving processes of machine-1 is killed, while eight sign-ins are under way in all."""

    async def kill() -> None:
        processes.send(recipe.daemons[0].running.workers()[:1], signal.SIGKILL)

    await recipe.in_the_middle(nursery, kill)


async def daemon(recipe: Recipe, nursery: trio.Nursery) -> None:
    """The whole daemon of machine-1 is killed, in the middle of sign-ins. Its service manager starts it again after a second."""
    await recipe.in_the_middle(nursery, recipe.daemons[0].kill)
    nursery.start_soon(recipe.later, recipe.daemons[0].start)


async def proxy(recipe: Recipe, nursery: trio.Nursery) -> None:
    """Of machine-1 nginx is killed, with every connection through it. Clients go to the other address."""
    await recipe.in_the_middle(nursery, recipe.proxies[0].kill)
    nursery.start_soon(recipe.later, recipe.proxies[0].start)


async def balancer(recipe: Recipe, nursery: trio.Nursery) -> None:
    """Of machine-2 HAProxy is killed, with every connection through it. Clients go to the other address."""
    await recipe.in_the_middle(nursery, recipe.proxies[1].kill)
    nursery.start_soon(recipe.later, recipe.proxies[1].start)


async def store(recipe: Recipe, _nursery: trio.Nursery) -> None:
    """The member of etcd beside the primary is killed, and stays away: two of three still vote."""
    leader = await recipe.database.leader()
    recipe.going.set()
    await trio.to_thread.run_sync(leader.kill_etcd)
    recipe.gone.set()
    await trio.sleep(DETECTION)


async def standby(recipe: Recipe, nursery: trio.Nursery) -> None:
    """The synchronous standby is gone, in the middle of sign-ins. Commits wait until Patroni names the other one."""
    (name,) = [name for name, role in (await recipe.database.members()).items() if role == "sync_standby"]
    (gone,) = [machine for machine in recipe.database.machines if machine.name == name]
    await recipe.in_the_middle(nursery, partial(trio.to_thread.run_sync, gone.kill_database))


async def primary(recipe: Recipe, nursery: trio.Nursery) -> None:
    """The primary of the database is gone with its Patroni, in the middle of sign-ins; after `ttl` the synchronous standby is promoted."""
    leader = await recipe.database.leader()
    await recipe.in_the_middle(nursery, partial(trio.to_thread.run_sync, leader.kill_database))
    await _another_leads(recipe, leader)


async def switchover(recipe: Recipe, _nursery: trio.Nursery) -> None:
    """Somebody moves the primary on purpose, by the line of the guide."""
    recipe.going.set()
    await recipe.database.switch_over()
    recipe.gone.set()


async def replacement(recipe: Recipe, _nursery: trio.Nursery) -> None:
    """The etcd and the database of machine-2 are lost for good, and a new one takes its place by the lines of the guide."""
    recipe.going.set()
    recipe.gone.set()
    await recipe.database.replace_second()


async def release(recipe: Recipe, _nursery: trio.Nursery) -> None:
    """Nothing goes away: both daemons are restarted, one after the other, by the steps of the guide's release."""
    recipe.going.set()
    recipe.gone.set()
    for one in recipe.daemons:
        await one.stop()
        await one.start()
        await trio.sleep(SETTLED)


async def one_machine(recipe: Recipe, nursery: trio.Nursery) -> None:
    """A machine with everything is gone, and stays away: its proxy, its daemon, its etcd, and the primary of the database, all at once."""
    leader = await recipe.database.leader()

    async def kill() -> None:
        async with trio.open_nursery() as at_once:
            at_once.start_soon(recipe.proxies[0].kill)
            at_once.start_soon(recipe.daemons[0].kill)
            at_once.start_soon(trio.to_thread.run_sync, leader.kill)

    await recipe.in_the_middle(nursery, kill)
    await _another_leads(recipe, leader)


FAULTS: Final[Mapping[str, Fault]] = {
    "worker": worker,
    "daemon": daemon,
    "nginx": proxy,
    "haproxy": balancer,
    "etcd": store,
    "standby": standby,
    "primary": primary,
    "switchover": switchover,
    "replacement": replacement,
    "machine": one_machine,
    "release": release,
}
# What an operator does on purpose costs nobody anything.
ON_PURPOSE: Final = frozenset({"release"})


async def _another_leads(recipe: Recipe, old: DatabaseMachine) -> None:
    with trio.fail_after(_PATIENCE):
        while await recipe.database.leader() is old:  # noqa: ASYNC110 - others work
            await trio.sleep(0.1)


def _waiting(database: Patroni) -> int:
    ((waiting,),) = database.ask("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'postern'")
    return int(waiting)


@dataclass(frozen=True, slots=True)
class Round:
    began: float
    back: float
    """When everything that comes back was back."""
    visits: Sequence[Visit]
    under_way: int
    """The changes that waited for an answer when the fault came, or a moment later."""
    lost: Counter[str]
    twice: Counter[str]
    alerts: Mapping[str, str]


async def tried(recipe: Recipe, fault: Fault, place: Path, *, before: float = BEFORE, after: float = AFTER) -> Round:
    """The fault under load, and afterwards what was lost, and whom it would have woken."""
    visitors = recipe.visitors
    alarms = Alarms({f"machine-{number}": one.running.target("/metrics") for number, one in enumerate(recipe.daemons, 1)})
    writer = Writer(recipe.database)
    first = len(visitors.visits)
    in_flight: set[int] = set()

    async def count() -> None:
        await recipe.going.wait()
        with trio.CancelScope() as counting:
            while True:
                in_flight.update(visitors.under_way)
                await trio.sleep(0.005)
                if recipe.gone.is_set() and counting.deadline > 1e300:
                    counting.deadline = trio.current_time() + A_MOMENT

    async with trio.open_nursery() as watchers:
        watchers.start_soon(alarms.watch)
        watchers.start_soon(writer.write)
        async with visitors.at_work(), trio.open_nursery() as nursery:
            watchers.start_soon(count)
            await trio.sleep(before)
            began = trio.current_time()
            await fault(recipe, nursery)
            await trio.sleep(after)
        # One more scrape, in which everything that was started again is there.
        await trio.sleep(INTERVAL + 1)
        watchers.cancel_scope.cancel()
    visits = visitors.visits[first:]
    lost, twice = await trio.to_thread.run_sync(_compared, recipe, visits)
    back = max(began, recipe.back, writer.back(began))
    return Round(began, back, visits, len(in_flight), lost, twice, await alarms.fired(place))


def _compared(recipe: Recipe, visits: Sequence[Visit]) -> tuple[Counter[str], Counter[str]]:
    """What was answered as done and is not there, and what happened twice."""
    ask, visitors = recipe.database.ask, recipe.visitors
    lost, twice = Counter[str](), Counter[str]()
    names = [one.name for one in visits if one.what == "sign-in"]
    told = [visitors.sessions[name] for name in names if name in visitors.sessions]
    ((there,),) = ask("select count(*) from sessions where id::text = any(%s)", [told])
    lost["sign-in"] = len(told) - int(there)
    # Whoever signs in here never did so before, and has one older session by which the drill has filled the table.
    rows = ask(
        "select count(*) from sessions where user_id::text = any(%s) and created_at > now() - interval '1 hour' group by user_id",
        [[visitors.people[name] for name in names]],
    )
    twice["sign-in"] = sum(int(count) - 1 for (count,) in rows)
    added = Counter(name for (name,) in ask("select external_id from provisioned_users where external_id is not null"))
    for one in visits:
        if one.what == "directory":
            lost["directory"] += one.done and not added[one.name]
            twice["directory"] += max(0, added[one.name] - 1)
    return lost, twice


def figures_of(what: str, found: Round) -> list[Figure]:
    reads = [one for one in found.visits if one.what == "read"]
    changes = [one for one in found.visits if one.what != "read"]
    failed = Counter(one.code for one in changes if not one.done)
    rough = [one for one in found.visits if one.ended >= found.began and (not one.was_smooth or one.ended - one.began > SLOW)]
    errors = [at for one in found.visits for at in one.refused if at >= found.began]
    waited = [one for one in reads if one.done and one.tries > 1]
    slowest = max((one.ended - one.began for one in reads if one.ended >= found.began), default=0.0)
    pages = [name for name, severity in found.alerts.items() if severity == "page"]
    tickets = [name for name, severity in found.alerts.items() if severity == "ticket"]
    return [
        Figure(f"{what}: reads that failed, of {len(reads)}", sum(not one.done for one in reads), bar=at_most(0)),
        Figure(f"{what}: reads that were told to come again", len(waited)),
        Figure(f"{what}: slowest read", slowest, "s"),
        Figure(
            f"{what}: changes that failed, of {len(changes)}; {found.under_way} were under way",
            failed.total(),
            bar=at_most(0 if what in ON_PURPOSE else found.under_way),
            beside=_counted(failed),
        ),
        Figure(f"{what}: answered as done and lost", found.lost.total(), bar=at_most(0), beside=_counted(found.lost)),
        Figure(f"{what}: done twice", found.twice.total(), bar=at_most(0), beside=_counted(found.twice)),
        Figure(f"{what}: what is gone is back after", found.back - found.began, "s"),
        Figure(f"{what}: last error after that", max([0.0, *(at - found.back for at in errors)]), "s", bar=at_most(ERRORS_AFTER)),
        Figure(f"{what}: all is well after", max((one.ended for one in rough), default=found.began) - found.began, "s"),
        Figure(f"{what}: alerts that wake somebody", len(pages), bar=at_most(0), beside=", ".join(pages) or "none"),
        Figure(f"{what}: tickets", len(tickets), beside=", ".join(tickets) or "none"),
    ]


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number) or "none"


def settings_of(database: Patroni, place: Path) -> dict[str, str]:
    """The recipe's postern.conf, with the addresses and secrets of the drill."""
    shipped = dict(re.findall(r"^(POSTERN_\w+)=(.*)$", (FOLDER / "postern.conf").read_text(), re.MULTILINE))
    here = {
        **SETTINGS,
        "POSTERN_DATABASE_URL": database.url,
        "POSTERN_ENCRYPTION_KEYS": ring(place),
        "POSTERN_TRUSTED_PROXIES": "127.0.0.1",
        "POSTERN_MAIL": "console",
        "POSTERN_RATE_LIMITS": "off",
    }
    return {name: value for name, value in shipped.items() if not name.endswith("_FILE")} | here


@asynccontextmanager
async def standing(place: Path, *, processes_of_each: int = 2) -> AsyncIterator[tuple[Patroni, Sequence[Daemon], Sequence[Proxy]]]:
    """The whole recipe, by the steps of the guide."""
    place.chmod(0o755)  # noqa: ASYNC240 - returns at once; workers of nginx are another user
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(running(place / "database"))
        await database.typed("patronictl --config-file /etc/patroni/config.yml list")
        settings = settings_of(database, place)
        keys = database.place / "encryption-keys"
        keys.touch(mode=0o600)
        keys.write_text(settings["POSTERN_ENCRYPTION_KEYS"])
        await database.typed("postern migrate --grant postern_app")
        daemons = [Daemon(place / name, settings, processes_of_each) for name in ("machine-1", "machine-2")]
        for one in daemons:
            stack.push_async_callback(one.kill)
            await one.start()
        proxies = [Proxy(kind, place, [one.port for one in daemons]) for kind in WAYS]
        for each in proxies:
            stack.push_async_callback(each.kill)
            await each.start()
        yield database, daemons, proxies


async def filled(daemon: Daemon, database: Patroni, sink: Receivers, strangers: int) -> Material:
    """People and a directory, written by the role that owns the tables, to the primary."""
    await trio.to_thread.run_sync(database.ask, may_fill("postern_owner"))
    owner = {"POSTERN_DATABASE_URL": database.url_of("postern_owner")}
    return await prepared(replace(daemon.running, settings={**daemon.running.settings, **owner}), sink, strangers=strangers)


async def drill(faults: Sequence[str]) -> Sequence[Figure]:
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        database, daemons, proxies = await stack.enter_async_context(standing(place))
        sink = await stack.enter_async_context(receivers())
        material = await filled(daemons[0], database, sink, 5_000)
        for name in faults:
            recipe = Recipe(daemons, proxies, database, Visitors(proxies, material))
            await recipe.begin()
            found = figures_of(name, await tried(recipe, FAULTS[name], place))
            figures += found
            complain(table([Outcome("machines", found)]))
    return figures


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill machines", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="fault", help=f"of {', '.join(FAULTS)}; all without")
    parser.add_argument("--list", action="store_true", help="say what each fault is")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.faults) - FAULTS.keys():
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    if chosen.list:
        for name, fault in FAULTS.items():
            print(f"{name:10} {' '.join((inspect.getdoc(fault) or '').split())}")
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    complain(f"{machine()}. Load average before: {busyness():.1f}.")
    outcome = Outcome("machines", trio.run(partial(_drilled, chosen.faults or tuple(FAULTS))))
    print(table([outcome]))
    return 0 if outcome.held else 1


async def _drilled(faults: Sequence[str]) -> Sequence[Figure]:
    with trio.fail_after(PATIENCE):
        return await drill(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
