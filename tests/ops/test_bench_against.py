"""The instruments of a comparison with an earlier commit: they serve that commit's own code, and compare latencies in blocks."""

import subprocess
from collections.abc import Mapping, Sequence
from itertools import cycle, repeat
from pathlib import Path

import pytest
import trio

from ops.bench import against, running
from ops.bench.__main__ import main
from ops.bench.alternating import Refused, alternate
from ops.bench.harness import Case, DidNotStart, Options, serving
from ops.bench.report import ROOT, Outcome
from tests.ops.test_bench import always_ok, answering


def in_git() -> bool:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).returncode == 0


needs_git = pytest.mark.skipif(not in_git(), reason="this tree is not in git")


@needs_git
async def test_the_code_of_the_commit_is_served_and_not_ours(tmp_path: Path) -> None:
    with against.taken_out("HEAD") as tree:
        assert (tree / "pyproject.toml").exists()
        assert not (tree / ".git").exists()
        with (tree / "core" / "__init__.py").open("a") as file:
            file.write("\nraise SystemExit(77)\n")
        with pytest.raises(DidNotStart, match="ended with 77"):
            async with serving(tmp_path, tree=tree):
                pass
    assert not tree.exists()


@needs_git
def test_a_commit_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["against", "no-such-commit", "latency"])
    assert ended.value.code == 2
    assert "there is no commit no-such-commit" in capsys.readouterr().err


def test_a_comparison_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["against", "HEAD", "start"])
    assert ended.value.code == 2
    assert "there is no case start" in capsys.readouterr().err


def test_every_comparison_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["against", "HEAD", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(against.CASES)
    assert all(len(line.split()) > 5 for line in lines)


@needs_git
@pytest.mark.parametrize(
    "words",
    [
        ["--turns", "3", "HEAD", "codes", "--seconds", "1", "refresh"],
        ["HEAD", "--turns", "3", "codes", "refresh", "--seconds", "1"],
        ["HEAD", "codes", "refresh", "--turns", "3", "--seconds", "1"],
    ],
    ids=["around", "before the cases", "after the cases"],
)
def test_options_stand_before_or_after_the_comparisons(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], float]] = []

    def measured(cases: Mapping[str, Case], options: Options) -> list[Outcome]:
        asked.append((list(cases), options.seconds))
        return []

    monkeypatch.setattr(running, "_measured", measured)
    assert main(["against", *words]) == 0
    assert asked == [(["against codes", "against refresh"], 1.0)]


async def test_a_server_that_is_slower_is_told_apart_by_alternating_blocks() -> None:
    order: list[str] = []

    async def quick(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            order.append("quick")
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")

    async def slow(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            order.append("slow")
            await trio.sleep(0.002)
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            await stream.send_all(b"hi")

    async with answering(quick) as one, answering(slow) as other:
        found = await trio.to_thread.run_sync(alternate, cycle([one]), repeat(other), 10)
    assert found.second >= 0.002
    assert found.ratio < 1
    assert found.first < found.second
    # A pair of blocks warms up. Then blocks of the two sides follow in turns, and each turn swaps their order.
    assert order == ["quick"] * 25 + ["slow"] * 25 + (["quick"] * 25 + ["slow"] * 50 + ["quick"] * 25) * 5


@pytest.mark.parametrize("answer", [b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", b""], ids=["503", "none"])
async def test_an_answer_other_than_200_ends_the_comparison(answer: bytes) -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        if answer:
            await stream.send_all(answer)

    async with answering(always_ok) as one, answering(refuse) as other:
        with pytest.raises(Refused):
            await trio.to_thread.run_sync(alternate, repeat(one), repeat(other), 1)
