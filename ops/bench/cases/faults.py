"""Faults under load: processes killed, the database gone, the server told to stop."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psycopg
import trio

from ops.bench import processes
from ops.bench.filling.fill import fill
from ops.bench.harness import Options, Server, directory, postgres, serving
from ops.bench.inside import bearer, queue_mails
from ops.bench.load import Answer, Broken, Client, Tally, Target, drive
from ops.bench.report import Figure, at_least, at_most

KILLS: Final = 20
MAILS: Final = 400
OUTAGE: Final = 10.0
# POSTERN_REQUEST_TIMEOUT's default, and a second for the round trip.
DEADLINE: Final = 31.0


async def kill(_options: Options) -> Sequence[Figure]:
    """Kill -9 twenty times under load: of one of two serving processes, then of a whole `postern serve`. Every queued mail must leave."""
    return [*await _kill_workers(), *await _kill_whole()]


async def _kill_workers() -> Sequence[Figure]:
    tally = Tally()
    silences: list[float] = []
    replaced = 0
    with directory() as place:
        async with serving(place, arguments=("--processes", "2")) as server:
            mails: frozenset[str] = frozenset()
            async with _under_load(server.target("/health/ready"), tally):
                for _ in range(KILLS):
                    mails |= await queue_mails(server, MAILS // KILLS)
                    victim = server.workers()[0]
                    processes.send([victim], signal.SIGKILL)
                    silences.append(await _next_answer(server))
                    if not await _has_workers(server, 2, without=victim):
                        break
                    replaced += 1
                    await trio.sleep(0.5)
            alive = server.process.returncode is None
            unsent = len(mails) - await _mails_sent(place, mails, 150 if alive else 1)
    return [
        Figure(f"one of two processes killed and replaced, of {KILLS}", replaced, bar=at_least(KILLS)),
        Figure("the parent lives through all of it", alive, bar=at_least(1)),
        Figure("a new client's answer after a kill, slowest", max(silences), "s"),
        Figure("answers broken off in the middle", tally.failures["closed in the middle of an answer"], bar=at_most(0)),
        Figure("answers other than 200", tally.requests - tally.statuses[200], bar=at_most(0)),
        Figure("answers 200 meanwhile", tally.statuses[200], bar=at_least(100)),
        Figure("requests in flight lost with the killed processes", tally.failures["closed before an answer"]),
        Figure(f"mails promised and not sent, of {len(mails)}", unsent, bar=at_most(0)),
    ]


async def _next_answer(server: Server) -> float:
    began = trio.current_time()
    with trio.move_on_after(30):
        while await server.status("/health/live", 30) != 200 and server.process.returncode is None:  # noqa: ASYNC110 - another process answers
            await trio.sleep(0.01)
    return trio.current_time() - began


async def _kill_whole() -> Sequence[Figure]:
    starts, sent, again = [], 0, False
    with directory() as place:
        mails: frozenset[str] = frozenset()
        for _ in range(KILLS):
            async with serving(place) as server:
                starts.append(server.readied_after)
                mails |= await queue_mails(server, MAILS // KILLS)
                async with _under_load(server.target("/health/ready"), Tally()):
                    await trio.sleep(0.1)
                    # This kills only the one process. Its PostgreSQL runs on, as after a kill by the kernel for want of memory.
                    processes.send([server.pid], signal.SIGKILL)
                    await server.process.wait()
        async with serving(place) as server:
            again = await server.status("/health/ready") == 200
            sent = await _mails_sent(place, mails)
    return [
        Figure("whole `postern serve` killed, started again", KILLS * again, bar=at_least(KILLS)),
        Figure("start after a kill, slowest", max(starts[1:]), "s", at_most(5)),
        Figure(f"mails promised and not sent, of {MAILS}", len(mails) - sent, bar=at_most(0)),
    ]


async def _has_workers(server: Server, wanted: int, *, without: int) -> bool:
    with trio.move_on_after(30):
        while server.process.returncode is None:
            workers = server.workers()
            if len(workers) == wanted and without not in workers:
                return True
            await trio.sleep(0.02)
    return False


async def _mails_sent(place: Path, wanted: frozenset[str], patience: float = 150) -> int:
    """How many of the mails have a file, once the lease of a killed process has run out."""
    sent: set[str] = set()
    with trio.move_on_after(patience):
        while not wanted <= sent:
            await trio.sleep(0.25)
            files = "\n".join(await trio.to_thread.run_sync(_names, place / "mail"))
            sent |= {mail for mail in wanted if mail in files}
    return len(sent)


def _names(place: Path) -> list[str]:
    return [file.name for file in place.iterdir()] if place.exists() else []


@asynccontextmanager
async def _under_load(
    target: Target, tally: Tally, *, connections: int = 8, pause: float = 0.005, patience: float = 60.0
) -> AsyncIterator[None]:
    over = trio.Event()
    async with trio.open_nursery() as nursery:

        async def load() -> None:
            await drive(target, tally, connections=connections, seconds=180, pause=pause, patience=patience, until=over)

        nursery.start_soon(load)
        await trio.sleep(0.3)
        yield
        over.set()


async def database(_options: Options) -> Sequence[Figure]:
    """PostgreSQL away for 10 s under load: stopped, so that it refuses connections; and frozen, so that it answers nothing at all, as
    behind a cut cable.
    """
    return [*await _outage("stopped"), *await _outage("frozen")]


async def _outage(way: str) -> Sequence[Figure]:
    tally, ready = Tally(), Tally()
    timeline: list[tuple[float, int]] = []

    def note(answer: Answer) -> None:
        timeline.append((trio.current_time(), answer.status))

    with directory() as place, postgres(place) as elsewhere:
        async with serving(place, database_url=elsewhere.application_url) as server:
            person = (await trio.to_thread.run_sync(fill, elsewhere.application_url, 100))[0]
            target = server.target("/api/user", await bearer(server, person))
            before = server.pids()
            async with trio.open_nursery() as nursery:
                over = trio.Event()

                async def probe() -> None:
                    await drive(server.target("/health/ready"), ready, connections=1, seconds=120, pause=0.05, until=over, watch=note)

                nursery.start_soon(probe)
                # The pool has more connections than this, so a quick answer of ready does not come from an exhausted pool.
                async with _under_load(target, tally, connections=4, pause=0.01):
                    await trio.sleep(2)
                    left = trio.current_time()
                    family = processes.tree(_postmaster(place), without=None)
                    if way == "stopped":
                        await trio.to_thread.run_sync(elsewhere.stop)
                    else:
                        processes.send(family, signal.SIGSTOP)
                    try:
                        await trio.sleep(max(0.0, left + OUTAGE - trio.current_time()))
                    finally:
                        processes.send(family, signal.SIGCONT)
                    if way == "stopped":
                        await trio.to_thread.run_sync(elsewhere.start)
                    came = trio.current_time()
                    settled = await server.until("/health/ready", 200, 30)
                    answers = tally.statuses[200]
                    await trio.sleep(3)
                    working = tally.statuses[200] - answers
                over.set()
            same = server.pids() == before
    unready = [at for at, status in timeline if status == 503]
    return [
        Figure(f"{way}: 503 from ready after", min(unready, default=came) - left, "s", at_most(3)),
        Figure(f"{way}: slowest answer of ready", max(ready.latencies), "s", at_most(3)),
        Figure(f"{way}: 200 again from ready after its return", settled, "s", at_most(5)),
        Figure(f"{way}: authenticated requests answered in the 3 s after that", working, bar=at_least(100)),
        Figure(f"{way}: slowest answer to an authenticated request", max(tally.latencies), "s", at_most(DEADLINE)),
        Figure(f"{way}: requests without any answer", tally.failures.total(), bar=at_most(0)),
        Figure(f"{way}: answers 500", tally.statuses[500], bar=at_most(0)),
        # With a frozen database, a request only knows that its answer is not there yet. If the database thaws before the deadline, every
        # request gets its answer.
        Figure(f"{way}: answers 503 meanwhile", tally.statuses[503], bar=at_least(1) if way == "stopped" else None),
        Figure(f"{way}: the same processes serve", same, bar=at_least(1)),
    ]


def _postmaster(place: Path) -> int:
    return int((place / "server" / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


async def sigterm(_options: Options) -> Sequence[Figure]:
    """SIGTERM five times under load; then once while requests wait for a database lock, which becomes free a second later."""
    return [*await _stop_under_load(), *await _stop_with_requests_in_flight()]


async def _stop_under_load() -> Sequence[Figure]:
    tally, took, codes = Tally(), [], []
    with directory() as place:
        for _ in range(5):
            async with serving(place) as server:
                over = trio.Event()
                async with trio.open_nursery() as nursery:
                    for _number in range(16):
                        nursery.start_soon(_use_until_gone, server.target("/health/ready"), tally, over)
                    await trio.sleep(1)
                    took.append(await server.stop())
                    over.set()
                codes.append(server.process.returncode)
    return [
        Figure("requests answered before and while stopping", tally.statuses[200], bar=at_least(500)),
        Figure("sent and not answered", tally.failures.total(), bar=at_most(0)),
        Figure("answered with anything but 200", tally.requests - tally.statuses[200], bar=at_most(0)),
        Figure("exit after, slowest of 5", max(took), "s", at_most(5)),
        Figure("exit status 0, of 5", codes.count(0), bar=at_least(5)),
    ]


async def _use_until_gone(target: Target, tally: Tally, over: trio.Event) -> None:
    """Asks until nobody accepts a connection any longer. A refused connection is no failure, because nobody accepted a request."""
    while not over.is_set():
        try:
            async with Client.connected(target) as client:
                while True:
                    answer = await client.get()
                    tally.answered(answer)
                    if answer.closes:
                        break
        except OSError:
            return
        except Broken as broken:
            tally.failures[str(broken)] += 1


async def _stop_with_requests_in_flight() -> Sequence[Figure]:
    tally = Tally()
    with directory() as place:
        async with serving(place) as server:
            person = (await trio.to_thread.run_sync(fill, server.database_url, 10))[0]
            target = server.target("/api/user", await bearer(server, person))
            async with trio.open_nursery() as nursery:

                async def one() -> None:
                    try:
                        async with Client.connected(target) as client:
                            tally.answered(await client.get())
                    except Broken as broken:
                        tally.failures[str(broken)] += 1

                with psycopg.connect(server.database_url) as holder:
                    holder.execute("lock table sessions in access exclusive mode")
                    for _ in range(8):
                        nursery.start_soon(one)
                    await trio.sleep(0.5)

                    async def release() -> None:
                        await trio.sleep(1)
                        holder.rollback()

                    nursery.start_soon(release)
                    took = await server.stop()
    return [
        Figure("in flight at SIGTERM and answered 200, of 8", tally.statuses[200], bar=at_least(8)),
        Figure("exit after, with these", took, "s", at_most(5)),
    ]
