"""`postern serve --processes 2`."""

import os
import re
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from tests.e2e.postern import Postern, alive, children, until
from tests.patience import PATIENCE

Serve = Callable[..., Postern]


def test_two_serve_as_one(serve: Serve) -> None:
    server = serve("--processes", "2")
    server.expected_errors |= {"process_died"}
    assert server.out.read_text().count("Postern is ready") == 1
    first, second = children(server.pid)
    # New connections, spread by the kernel: that all of them reach one process has a chance of 1 in 2^39.
    assert [server.get("/health/live").status for _ in range(40)] == [200] * 40
    until(lambda: _answered_live(server) == 40)

    # One process is killed. Clients that come meanwhile wait in the backlog, which the parent holds, and get their answers.
    os.kill(first, signal.SIGKILL)
    assert [server.get("/health/live").status for _ in range(30)] == [200] * 30
    until(lambda: len(children(server.pid)) == 2)
    assert second in children(server.pid)
    assert first not in children(server.pid)
    # The page is made once a second.
    until(lambda: _answered_live(server) == 70)

    pids = [*children(server.pid), server.postgres()]
    assert server.stop() == 0
    assert not any(map(alive, pids))
    assert not server.logged("process_killed")


def _answered_live(server: Postern) -> int:
    """The count over all processes, also ended ones, as a scrape of any process shows it."""
    page = server.get("/metrics").body.decode()
    counted = re.findall(r'^sso_http_request_duration_seconds_count\{.*route="/health/live".*\} (\d+)', page, re.MULTILINE)
    return sum(map(int, counted))


def test_metrics_have_an_address_and_a_token_of_their_own(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-for-scrapers\n")
    server = serve("--processes", "2", POSTERN_METRICS_BIND="127.0.0.1:0", POSTERN_METRICS_TOKEN_FILE=str(token))
    port = int(server.logged("metrics_served")[0]["addresses"][0].rpartition(":")[2])
    assert server.get("/metrics").status == 404
    assert _scraped(port, "") == (401, False)
    # One of the two processes answers for both; either of them, and also when the other is gone.
    server.expected_errors |= {"process_died"}
    for _ in range(2):
        assert _scraped(port, "a-token-for-scrapers") == (200, True)
        first, second = children(server.pid)
        os.kill(first, signal.SIGKILL)
        until(partial(_replaced, server, first))
        assert second in children(server.pid)
    assert server.stop() == 0


def _replaced(server: Postern, gone: int) -> bool:
    pids = children(server.pid)
    return len(pids) == 2 and gone not in pids


def _scraped(port: int, token: str) -> tuple[int, bool]:
    """The status, and whether there were metrics."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, b"sso_" in answer.read()


def test_children_go_with_their_parent_and_one_that_hangs_does_not_hold_up_the_end(serve: Serve) -> None:
    server = serve("--processes", "2")
    server.expected_errors |= {"parent_gone"}
    pids = children(server.pid)
    metrics = Path(_environment_of(pids[0])["PROMETHEUS_MULTIPROC_DIR"])
    assert metrics.is_dir()
    server.kill()
    until(lambda: not any(map(alive, pids)))
    assert not metrics.exists()
    again = serve("--processes", "2", POSTERN_BIND=f"127.0.0.1:{server.port}", POSTERN_SHUTDOWN_TIMEOUT="0s")
    again.expected_errors |= {"process_killed"}
    os.kill(children(again.pid)[0], signal.SIGSTOP)
    assert again.stop(signal.SIGINT) == 0
    assert again.logged("process_killed")


def _environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)
