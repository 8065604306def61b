"""The benchmark's own instruments: the load generator counts what happened, bars hold or do not, and /proc is read rightly."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import trio

from ops.bench import processes
from ops.bench.__main__ import main
from ops.bench.cases import CASES
from ops.bench.cases.timing import signed_rank
from ops.bench.fill import fill, grow
from ops.bench.harness import generate
from ops.bench.load import Broken, Client, NotLoopback, Tally, Target, drive, fetch, percentile
from ops.bench.report import Figure, Outcome, at_least, at_most, machine, record, table

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def answering(answer: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[Target]:
    """A server on loopback that does with each connection what it is told."""

    async def serve(stream: trio.SocketStream) -> None:
        # A load that is over leaves without a word.
        with suppress(trio.BrokenResourceError):
            async with stream:
                await answer(stream)

    async with trio.open_nursery() as nursery:
        (listener, *_) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield Target("127.0.0.1", listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


async def always_ok(stream: trio.SocketStream) -> None:
    while await stream.receive_some():
        await stream.send_all(OK)


async def test_answers_are_counted_and_timed() -> None:
    tally = Tally()
    async with answering(always_ok) as target:
        await drive(target, tally, connections=2, seconds=0.2)
    assert tally.requests > 2
    assert set(tally.statuses) == {200}
    assert not tally.failures
    assert 0 < tally.summary().p50 <= tally.summary().slowest
    assert tally.summary().rate == pytest.approx(tally.requests / tally.seconds)


async def test_a_connection_that_ends_before_the_answer_is_a_failure_of_its_own_kind() -> None:
    async def leave(stream: trio.SocketStream) -> None:
        await stream.receive_some()

    async with answering(leave) as target, Client.connected(target) as client:
        with pytest.raises(Broken) as caught:
            await client.get()
    assert not caught.value.begun


@pytest.mark.parametrize("part", [OK[:9], OK[:-1]], ids=["in the head", "in the body"])
async def test_a_connection_that_ends_in_the_middle_of_an_answer_is_another(part: bytes) -> None:
    async def stop_short(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(part)

    async with answering(stop_short) as target, Client.connected(target) as client:
        with pytest.raises(Broken) as caught:
            await client.get()
    assert caught.value.begun


async def test_an_answer_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async def keep_silent(_stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    tally = Tally()
    async with answering(keep_silent) as target:
        await drive(target, tally, connections=1, seconds=0.3, patience=0.1)
    assert tally.failures["no answer within 0.1 s"] >= 2


async def test_refusals_count_as_failures_of_the_summary() -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")

    tally = Tally()
    async with answering(refuse) as target:
        await drive(target, tally, connections=1, seconds=0.1)
    assert tally.summary().failures == tally.requests > 0


async def test_a_chunked_answer_is_read_to_its_end() -> None:
    async def in_chunks(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
        await trio.sleep_forever()

    async with answering(in_chunks) as target:
        answer = await fetch(target)
    assert answer is not None
    assert answer.body == b"abcde"


async def test_a_new_connection_follows_one_that_the_server_announced_to_close() -> None:
    connections = 0

    async def once(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        await stream.receive_some()
        await stream.send_all(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    tally = Tally()
    async with answering(once) as target:
        await drive(target, tally, connections=1, seconds=0.1)
    assert not tally.failures
    assert connections > 1


async def test_nobody_there_is_no_answer() -> None:
    assert await fetch(Target("127.0.0.1", 1)) is None


def test_load_never_leaves_this_machine() -> None:
    with pytest.raises(NotLoopback):
        Target.parse("http://192.0.2.1:8000/")


async def test_the_generators_agree_on_what_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(always_ok) as target:
        if shutil.which("wrk") is not None:
            by_wrk = await generate(target, 2, 1)
            assert by_wrk.requests > 100
            assert by_wrk.failures == 0
            assert 0.8 < by_wrk.seconds < 2
            assert 0 < by_wrk.p50 <= by_wrk.p99 <= by_wrk.slowest < 1
        monkeypatch.setattr(shutil, "which", lambda _name: None)
        by_ours = await generate(target, 2, 0.3)
    assert by_ours.requests > 10
    assert by_ours.failures == 0
    assert 0.2 < by_ours.seconds < 1
    assert 0 < by_ours.p50 <= by_ours.p99 <= by_ours.slowest < 1


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is missing")
async def test_each_header_of_a_file_is_asked_with_at_its_path(tmp_path: Path) -> None:
    heard = set[bytes]()

    async def listen(stream: trio.SocketStream) -> None:
        async for data in stream:
            lines = bytes(data).split(b"\r\n")
            heard.update(lines[0] + b" | " + line for line in lines if line.startswith((b"X-Api-Key: ", b"Authorization: ")))
            await stream.send_all(OK)

    file = tmp_path / "asked"
    file.write_text("X-Api-Key: one\t/of/one\nX-Api-Key: two\t/of/two?page=2\nX-Api-Key: three")
    async with answering(listen) as target:
        await generate(replace(target, path="/of/all"), 1, 1, tokens=file)
    assert heard == {
        b"GET /of/one HTTP/1.1 | X-Api-Key: one",
        b"GET /of/two?page=2 HTTP/1.1 | X-Api-Key: two",
        b"GET /of/all HTTP/1.1 | X-Api-Key: three",
    }


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 50) == 51
    assert percentile(values, 99) == 100
    assert percentile([7.0], 99) == 7
    assert percentile([], 99) == 0


def test_a_bar_holds_or_does_not() -> None:
    assert Figure("at the bar", 2.0, bar=at_most(2)).held
    assert not Figure("above the bar", 2.1, bar=at_most(2)).held
    assert Figure("at the bar", 1.5, bar=at_least(1.5)).held
    assert not Figure("below the bar", 1.4, bar=at_least(1.5)).held
    assert Figure("without a bar", 9.9).held
    assert not Outcome("case", failed="it did").held


def test_the_table_says_what_did_not_hold() -> None:
    shown = table([Outcome("start", [Figure("to ready", 1.234, "s", at_most(1))]), Outcome("h2", skipped="no h2load")])
    assert shown.splitlines() == [
        "| case  | what               | figure | bar | held   |",
        "|-------|--------------------|--------|-----|--------|",
        "| start | to ready           | 1.23 s | ≤ 1 | **no** |",
        "| h2    | skipped: no h2load |        |     |        |",
    ]


def test_a_run_is_appended_to_the_record(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("# Benchmarks\n")
    record([Outcome("start", [Figure("to ready", 1.0, "s", at_most(4))])], 0.25, "On a quiet machine.", to=file)
    lines = file.read_text().splitlines()
    assert lines[0] == "# Benchmarks"
    assert re.fullmatch(r"## \d{4}-\d\d-\d\d \d\d:\d\d UTC, commit \w+( with changes)?", lines[2])
    assert lines[4] == f"{machine()}. Load average before: 0.2."
    assert lines[6] == "On a quiet machine."
    assert lines[-1].startswith("| start | to ready")


def test_the_machine_is_described() -> None:
    assert f"{len(os.sched_getaffinity(0))} cores" in machine()
    assert "Python 3." in machine()


def test_processor_time_and_memory_of_a_process_and_its_children_are_read() -> None:
    program = """
import subprocess, sys
child = subprocess.Popen(["sleep", "30"])
sum(range(3_000_000))
print(child.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert processes.tree(parent.pid) == [parent.pid, child]
            assert processes.tree(parent.pid, without="sleep") == [parent.pid]
            assert processes.cpu_seconds([parent.pid]) > 0
            assert 5 < processes.resident_megabytes(parent.pid) < 100
            assert processes.peak_megabytes(parent.pid) >= processes.resident_megabytes(parent.pid)
            assert 3 <= processes.descriptors(parent.pid) < 20
        finally:
            os.kill(child, 9)
            parent.communicate()
    assert not processes.is_alive(parent.pid)


def test_a_grown_database_has_what_was_asked_for_and_all_its_indexes(database_url: str) -> None:
    structure = "select indexdef from pg_indexes where schemaname = 'public' union select pg_get_constraintdef(oid) from pg_constraint"

    def look(connection: psycopg.Connection[tuple[str]]) -> set[str]:
        return {definition.removesuffix(" NOT VALID") for (definition,) in connection.execute(structure)}

    with psycopg.connect(database_url, autocommit=True) as connection:
        before = look(connection)
        people = grow(database_url, 50, 120, 300)
        assert look(connection) == before
        for table, count in (("users", 50), ("devices", 50), ("sessions", 120), ("refresh_tokens", 120), ("login_events", 300)):
            assert connection.execute(f"select count(*) from {table}").fetchone() == (count,)
        ids = [one.session for one in people]
        living = connection.execute("select count(*) from sessions where id = any(%s) and expires_at > now()", [ids]).fetchone()
        assert living == (len(people),)
        assert people


def test_the_signed_rank_test_sees_a_shift_and_no_noise() -> None:
    noise = [(-1) ** number * (number % 17) for number in range(500)]
    assert signed_rank(noise) > 0.3
    assert signed_rank([value + 3 for value in noise]) < 1e-6
    assert signed_rank([]) == 1
    # Darwin's maize, from Fisher's "The Design of Experiments": 15 pairs, whose exact probability is 0.041.
    assert signed_rank([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]) == pytest.approx(0.04, abs=0.01)


def test_people_and_their_sessions_are_filled_in(database_url: str) -> None:
    people = fill(database_url, 250)
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            """select u.id, s.id, u.email from users u join sessions s on s.user_id = u.id
                where s.expires_at > now() and s.revoked_at is null"""
        ).fetchall()
    assert set(found) == {(one.user, one.session, one.email) for one in people}


def test_every_case_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CASES)
    assert all(len(line.split()) > 5 for line in lines)


def test_a_case_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["starts"])
    assert ended.value.code == 2
    assert "there is no case starts" in capsys.readouterr().err


def test_the_load_generator_runs_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.bench.load", "http://127.0.0.1:1/", "--seconds", "0.1", "--connections", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["requests"] == 0
