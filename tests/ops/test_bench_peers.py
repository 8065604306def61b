"""The instruments of a comparison with other servers: turns, one PostgreSQL for all servers, and their installed packages."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path

import psycopg
import pytest
import trio

from ops.bench import node
from ops.bench.cases import peers
from ops.bench.harness import DidNotStart, Skipped, directory
from ops.bench.load import Summary
from ops.bench.paired import WITH_POSTGRES, Contestant, Side, Turn, check, each_once, ratio, take_turns
from ops.bench.shared_postgres import SharedPostgres, shared_postgres
from tests.ops.test_bench import always_ok, answering


@pytest.fixture(scope="module")
def postgres() -> Iterator[SharedPostgres]:
    # Not in a directory of pytest's: PostgreSQL's user cannot enter such directories of root.
    with directory() as place, shared_postgres(place) as server:
        yield server


def turn(server: float) -> Turn:
    return Turn(Summary(1, 1.0, 0, 0.001, 0.002, 0.003, 0.004), server, server, 0.0)


def test_what_is_left_to_the_database_counts_with_the_servers_own_work() -> None:
    assert WITH_POSTGRES(Turn(turn(0.0).load, 2.0, 1.0, 3.0)) == 5.0


def test_the_other_server_hashes_passwords_as_ours_does() -> None:
    program = (node.SOURCES / "better_auth.js").read_text()
    assert "ARGON2ID = JSON.parse(process.env.ARGON2ID)" in program
    assert "hash(chosen, ARGON2ID)" in program
    assert '"memoryCost": settings.argon2_memory >> 10, "timeCost": settings.argon2_passes' in Path(peers.__file__).read_text()


def contestant(name: str, costs: list[float], side: Side) -> Contestant:
    async def load() -> Summary:
        raise NotImplementedError

    return Contestant(name, side, load, [turn(cost) for cost in costs])


def test_each_has_its_own_database_over_tcp_and_its_backends_are_told_apart(postgres: SharedPostgres) -> None:
    one, other = postgres.create("one"), postgres.create("other")
    assert "@127.0.0.1:" in one
    with psycopg.connect(one) as connection:
        before = dict(postgres.cpu("one"))
        assert set(before) == {connection.info.backend_pid}
        assert postgres.cpu("other") == {}
        connection.execute("select count(*) from generate_series(1, 300000)")
        assert postgres.cpu("one")[connection.info.backend_pid] > before[connection.info.backend_pid]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(re.sub(r":[^:@]+@", ":wrong@", other))


async def test_turns_are_taken_in_one_order_and_then_in_the_other_after_one_that_warms_up(postgres: SharedPostgres) -> None:
    order: list[str] = []

    def noting(name: str, side: Side) -> Contestant:
        async def load() -> Summary:
            order.append(name)
            await trio.lowlevel.checkpoint()
            return Summary(10, 1.0, 0, 0.001, 0.002, 0.003, 0.004)

        return Contestant(name, side, load)

    side = Side(os.getpid(), "postgres", postgres)
    first, second = noting("a", side), noting("b", side)
    await take_turns([first, second], 2)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert len(first.turns) == len(second.turns) == 2
    assert all(turn.server > 0 for turn in first.turns)


def test_the_ratio_is_the_median_of_those_of_each_turn(postgres: SharedPostgres) -> None:
    side = Side(os.getpid(), "postgres", postgres)
    # The second turn was disturbed, for both sides alike.
    first, second = contestant("ours", [1.0, 10.0, 1.5], side), contestant("theirs", [2.0, 20.0, 2.0], side)
    assert ratio(first, second, lambda one: one.server) == 0.5


async def test_what_is_under_way_when_the_time_is_over_counts() -> None:
    answered = 0

    async def slowly(stream: trio.SocketStream) -> None:
        nonlocal answered
        while await stream.receive_some():
            await trio.sleep(0.3)
            answered += 1
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with answering(slowly) as target:
        summary = await each_once(cycle([target.posting({"n": 1})]), 4, 0.1)()
    assert summary.requests == answered == 4
    assert summary.failures == 0
    assert summary.seconds >= 0.3


async def test_a_turn_takes_no_more_than_its_share_of_what_is_good_for_one_request() -> None:
    async with answering(always_ok) as target:
        turn = each_once(repeat(target.posting({"n": 1}), 25), 4, 30.0, 10)
        assert [(await turn()).requests for _ in range(3)] == [10, 10, 5]


async def test_a_turn_in_which_nothing_was_answered_is_no_figure(postgres: SharedPostgres) -> None:
    async def load() -> Summary:
        await trio.lowlevel.checkpoint()
        return Summary(0, 1.0, 3, 0.0, 0.0, 0.0, 0.0)

    with pytest.raises(DidNotStart, match="nothing was answered in a whole turn, and 3 requests failed"):
        await Contestant("theirs", Side(os.getpid(), "postgres", postgres), load).take()


async def test_a_server_that_tells_everybody_the_same_is_not_measured(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.write_text("X-Api-Key: one\nX-Api-Key: two")
    async with answering(always_ok) as target:
        with pytest.raises(DidNotStart, match="gives the same answer to different people"):
            await check("it", target, asked, 2)


async def test_a_server_that_lets_nobody_in_is_not_measured(tmp_path: Path) -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")

    asked = tmp_path / "asked"
    asked.write_text("X-Api-Key: one\nX-Api-Key: two")
    async with answering(refuse) as target:
        with pytest.raises(DidNotStart, match="does not let its people in"):
            await check("it", target, asked, 2)


async def test_a_server_that_answers_each_for_themselves_is_measured(tmp_path: Path) -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            key = re.search(rb"X-Api-Key: (\w+)", bytes(data))
            assert key is not None
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n" + key[1])

    asked = tmp_path / "asked"
    asked.write_text("X-Api-Key: one\nX-Api-Key: two")
    async with answering(echo) as target:
        await check("it", target, asked, 2)
        with pytest.raises(DidNotStart):
            await check("it", target, asked, 3)


def test_without_node_the_case_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(Skipped, match="not installed"):
        node.node_version()


@pytest.mark.parametrize("complaint", ["", "npm error network"])
def test_where_npm_cannot_install_the_case_is_skipped(
    complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    npm = commands / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1" = ci ] || exit 2\n[ -z "{complaint}" ] || {{ echo "{complaint}" >&2; exit 1; }}\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    into = tmp_path / "installed"
    if complaint:
        with pytest.raises(Skipped, match="npm could not install"):
            node.install(into)
        assert complaint in capsys.readouterr().err
        return
    assert node.install(into) == into
    assert (into / "better_auth.js").exists()
    capsys.readouterr()
    node.install(into)
    assert "installing" not in capsys.readouterr().err


def test_the_lock_is_of_exact_versions_and_names_no_registry() -> None:
    wanted = json.loads((node.SOURCES / "package.json").read_text())["dependencies"]
    packages = json.loads((node.SOURCES / "package-lock.json").read_text())["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all("resolved" not in package for package in packages.values())
    assert all("integrity" in package for name, package in packages.items() if name)
