"""The benchmark's own instruments: the load generator counts rightly, bars fail when they should, and /proc is read rightly."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import psycopg
import pytest
import trio

from ops.bench import processes
from ops.bench.__main__ import main
from ops.bench.cases import CASES
from ops.bench.cases.aftermath import Probed, area_under_curve
from ops.bench.cases.telling.provisioning import sent
from ops.bench.cases.timing import signed_rank
from ops.bench.filling.fill import fill, grow
from ops.bench.harness import generate
from ops.bench.load import Broken, Client, NotLoopback, Tally, Target, drive, fetch, percentile
from ops.bench.record import COMMANDS, PAGE, kept_rows, outdated, record, renewed
from ops.bench.report import Figure, Outcome, at_least, at_most, hardware, machine, table
from tests.patience import PATIENCE
from tests.tools import needs

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def answering(answer: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[Target]:
    """A server on loopback that calls `answer` for each connection."""

    async def serve(stream: trio.SocketStream) -> None:
        # A load that is over closes its connections at once.
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
    asked, enough = 0, trio.Event()

    async def count(stream: trio.SocketStream) -> None:
        nonlocal asked
        while await stream.receive_some():
            asked += 1
            # Of each connection, all answers but the last have been read.
            if asked == 5:
                enough.set()
            await stream.send_all(OK)

    tally = Tally()
    async with answering(count) as target:
        await drive(target, tally, connections=2, seconds=PATIENCE, until=enough)
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
    connections, enough = 0, trio.Event()

    async def keep_silent(_stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        if connections == 3:
            enough.set()
        await trio.sleep_forever()

    tally = Tally()
    async with answering(keep_silent) as target:
        await drive(target, tally, connections=1, seconds=PATIENCE, patience=0.1, until=enough)
    assert tally.failures["no answer within 0.1 s"] >= 2


async def test_refusals_count_as_failures_of_the_summary() -> None:
    asked, enough = 0, trio.Event()

    async def refuse(stream: trio.SocketStream) -> None:
        nonlocal asked
        while await stream.receive_some():
            asked += 1
            if asked == 3:
                enough.set()
            await stream.send_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")

    tally = Tally()
    async with answering(refuse) as target:
        await drive(target, tally, connections=1, seconds=PATIENCE, until=enough)
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
    connections, enough = 0, trio.Event()

    async def once(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        if connections == 3:
            enough.set()
        await stream.receive_some()
        await stream.send_all(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    tally = Tally()
    async with answering(once) as target:
        await drive(target, tally, connections=1, seconds=PATIENCE, until=enough)
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
            assert by_wrk.requests > 0
            assert by_wrk.failures == 0
            assert 0 < by_wrk.p50 <= by_wrk.p99 <= by_wrk.slowest <= by_wrk.seconds
            assert by_wrk.seconds > 0.8
        monkeypatch.setattr(shutil, "which", lambda _name: None)
        by_ours = await generate(target, 2, 0.3)
    assert by_ours.requests > 0
    assert by_ours.failures == 0
    assert 0 < by_ours.p50 <= by_ours.p99 <= by_ours.slowest <= by_ours.seconds
    assert by_ours.seconds > 0.2


@needs("wrk")
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


def test_what_was_measured_along_with_a_figure_stands_beside_it() -> None:
    assert Figure("CPU per request", 381.4, "µs", beside="PostgreSQL 86 µs").shown == "381 µs (PostgreSQL 86 µs)"


PAGE_BEFORE = f"""# Benchmarks

How to read it.

Machine: {hardware()}.

## Starting and memory

`.venv/bin/python -m ops.bench start memory`

| case   | what                    | figure   | bar   | held   | measured            |
|--------|-------------------------|----------|-------|--------|---------------------|
| start  | to ready                | 9 s      | ≤ 4   | **no** | 2026-01-01, 1234567 |
| start  | what is measured no more | 1 s      |       |        | 2026-01-01, 1234567 |
| memory | resident, idle          | 80.9 MiB | ≤ 110 | yes    | 2026-01-01, 1234567 |

## Races

`.venv/bin/python -m ops.bench seat`

| case | what   | figure | bar | held | measured            |
|------|--------|--------|-----|------|---------------------|
| seat | rounds | 200    |     |      | 2026-01-01, 1234567 |
"""


@dataclass(frozen=True)
class Kept:
    """The page of kept figures, before or after a run."""

    page: Path

    def record(self, outcomes: Sequence[Outcome]) -> None:
        record(outcomes, page=self.page)

    def rows(self) -> dict[tuple[str, str], list[str]]:
        """The cells of the page's tables, by case and figure."""
        found = {}
        for line in self.page.read_text().splitlines():
            if line.startswith("| ") and not line.startswith("| case"):
                case, what, *others = (cell.strip() for cell in line.strip("|").split(" | "))
                found[case, what] = others
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    kept = Kept(tmp_path / "page.md")
    kept.page.write_text(PAGE_BEFORE)
    return kept


def test_only_figures_with_a_bar_are_kept(kept: Kept) -> None:
    kept.record([Outcome("start", [Figure("to ready", 1.0, "s", at_most(4)), Figure("slowest", 2.0, "s")])])
    assert {what for case, what in kept.rows() if case == "start"} == {"to ready"}


def test_figures_that_differ_in_their_first_words_share_a_row_that_tells_the_worst() -> None:
    ratios = [Figure(f"/{name}: large against small", value, bar=at_most(1.2)) for name, value in (("a", 1.0), ("b", 3.5), ("c", 1.5))]
    rates = [Figure(f"{name}: answers", value, "a second", at_least(5)) for name, value in (("slow", 6.0), ("quick", 9.0))]
    assert kept_rows(Outcome("routes", [*ratios, *rates])) == [
        ("routes", "large against small, worst of 3", "3.5 (from 1; 2 miss, /b most)", "≤ 1.2", "**no**"),
        ("routes", "answers, worst of 2", "6 a second (from 9)", "≥ 5", "yes"),
    ]


def test_counts_that_are_right_have_a_row_only_in_a_case_without_other_figures() -> None:
    right = [Figure("lost", 0, bar=at_most(0)), Figure("killed, of 20", 20, bar=at_least(20))]
    assert kept_rows(Outcome("kill", right)) == [("kill", "2 counts, each with one right value", "right", "", "yes")]
    assert kept_rows(Outcome("kill", [*right, Figure("start", 0.8, "s", at_most(5))])) == [("kill", "start", "0.8 s", "≤ 5", "yes")]
    wrong = Figure("killed, of 20", 19, bar=at_least(20))
    assert kept_rows(Outcome("kill", [*right, wrong])) == [("kill", "killed, of 20", "19", "≥ 20", "**no**")]


def test_a_run_replaces_the_figures_of_its_cases_in_the_page_and_no_others(kept: Kept) -> None:
    kept.record([Outcome("start", [Figure("to ready", 1.0, "s", at_most(4), beside="cold 2 s")])])
    rows = kept.rows()
    assert set(rows) == {("start", "to ready"), ("memory", "resident, idle"), ("seat", "rounds")}
    *figures, measured = rows["start", "to ready"]
    assert figures == ["1 s (cold 2 s)", "≤ 4", "yes"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, \w+\+?", measured)
    assert rows["memory", "resident, idle"] == ["80.9 MiB", "≤ 110", "yes", "2026-01-01, 1234567"]
    assert rows["seat", "rounds"] == ["200", "", "", "2026-01-01, 1234567"]
    assert kept.page.read_text().startswith(PAGE_BEFORE.partition("\n## ")[0])


def test_a_case_that_is_new_comes_under_its_subject_with_its_command(kept: Kept) -> None:
    kept.record([Outcome("redeem", [Figure("rounds", 200, bar=at_least(1))]), Outcome("odd", [Figure("a", 1, bar=at_most(2))])])
    text = kept.page.read_text()
    assert re.findall(r"^## (.*)\n\n`(.*)`$", text, re.MULTILINE) == [
        ("Starting and memory", ".venv/bin/python -m ops.bench start memory"),
        ("Races", ".venv/bin/python -m ops.bench redeem seat"),
        ("Everything else", ".venv/bin/python -m ops.bench odd"),
    ]


def test_a_case_that_was_skipped_keeps_its_figures_and_one_that_failed_does_not(kept: Kept) -> None:
    kept.record([Outcome("memory", skipped="no /proc"), Outcome("seat", failed="it did not start")])
    rows = kept.rows()
    assert rows["memory", "resident, idle"][0] == "80.9 MiB"
    assert rows["seat", "failed: it did not start"][2] == "**no**"
    assert ("seat", "rounds") not in rows


def test_the_page_tells_of_one_machine(kept: Kept) -> None:
    kept.page.write_text(PAGE_BEFORE.replace(hardware(), "Another processor, 64 cores, 512 GiB"))
    kept.record([Outcome("start", [Figure("to ready", 1.0, "s", at_most(4))])])
    assert set(kept.rows()) == {("start", "to ready")}
    assert f"Machine: {hardware()}.\n" in kept.page.read_text()
    assert "Another processor" not in kept.page.read_text()


def test_the_page_begins_with_what_postern_costs_beside_others(kept: Kept) -> None:
    kept.page.write_text(PAGE_BEFORE.replace("How to read it.", "In short.\n\n| against | what |\n|-|-|\n| one | old |\n\nRepeat it so."))
    both = Figure("code to tokens against oidc-provider, done alike, CPU, PostgreSQL's too", 1.234, bar=at_most(1.15))
    kept.record([Outcome("providers", [both, Figure("code to tokens against oidc-provider, CPU", 0.9, bar=at_most(0.8))])])
    first, second = (kept.page.read_text().partition("\n## ")[at] for at in (0, 2))
    assert [line.split(" | ")[:3] for line in first.splitlines() if line.startswith("| oidc")] == [
        ["| oidc-provider", "code to tokens", "1.23".ljust(58)]
    ]
    assert "| one | old" not in first
    assert "Repeat it so." in first
    assert second.count("PostgreSQL's too") == 1
    before = kept.page.read_text()
    kept.record([Outcome("start", skipped="not today")])
    assert kept.page.read_text() == before


def test_each_line_of_the_page_is_of_a_case_that_there_is() -> None:
    measured = set(re.findall(r"^\| (\w+) ", PAGE.read_text(encoding="utf-8").partition("\n## ")[2], re.MULTILINE)) - {"case"}
    assert measured - {*CASES, *(command.removeprefix("ops.drill ") for command in COMMANDS.values())} == set()


def test_a_figure_is_outdated_after_thirty_days_or_without_a_day(kept: Kept) -> None:
    text = kept.page.read_text().replace("80.9 MiB | ≤ 110 | yes    | 2026-01-01", "80.9 MiB | ≤ 110 | yes    | 2026-01-02")
    assert outdated(text, date(2026, 1, 31)) == []
    assert [line.partition(",")[0] for line in outdated(text, date(2026, 2, 1))] == ["start", "start", "seat"]
    assert outdated(text.replace("2026-01-02, 1234567", ""), date(2026, 1, 31)) == [
        "memory, resident, idle: 80.9 MiB, measured nobody knows when"
    ]


def test_the_page_of_this_tree_stays_as_it_is_when_nothing_was_measured() -> None:
    text = PAGE.read_text(encoding="utf-8")
    on = re.search(r"^Machine: (.*)\.$", text, re.MULTILINE)
    assert on is not None
    assert renewed(text, {}, on[1]) == text


def test_the_page_of_this_tree_is_read_in_minutes() -> None:
    assert len(PAGE.read_text(encoding="utf-8").split()) <= 3200


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


def test_processor_time_of_threads_is_told_apart_by_their_priority() -> None:
    program = """
import os, sys, threading
def work(): os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19); sum(range(3_000_000)); done.set(); sys.stdin.read()
done = threading.Event()
threading.Thread(target=work).start()
done.wait()
print("worked", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"worked\n"
        seconds = processes.thread_seconds([process.pid])
        assert len(seconds) == 2
        assert all(spent > 0 for spent in seconds.values())
        assert set(processes.thread_seconds([process.pid], at_first_ones_priority=True)) == {process.pid}
        process.communicate()
    assert processes.thread_seconds([process.pid]) == {}


def test_a_thread_that_came_meanwhile_began_at_nought_and_one_that_went_is_left_out() -> None:
    assert processes.spent({1: 2.0, 2: 5.0}, {1: 2.5, 3: 0.25}) == 0.75


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


def test_the_area_under_the_curve_is_a_half_for_noise_and_one_for_what_is_always_longer() -> None:
    noise = [number % 17 / 1000 for number in range(170)]
    assert area_under_curve(noise, noise) == 0.5
    assert area_under_curve([1, 2], [0]) == 1
    probed = Probed(0.1, known=[[0.02, 0.04, 0.001]] * 5, unknown=[[0.02, 0.02, 0.02]] * 5)
    areas = probed.areas()
    assert (areas["longest within 0.05 s"], areas["mean within 0.05 s"]) == (1, 1)
    assert "longest within 0.25 s" not in areas


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


async def test_a_few_people_arrive_in_another_system_once_as_many_do() -> None:
    figures = {figure.what: figure.value for figure in await sent(60, 4, looked_for=0.3)}
    assert figures["people who arrived"] == 60
    assert figures["people who arrived twice, or without anybody here"] == 0
    assert figures["writes of the run without differences"] == 0
    assert figures["first run"] > 0
