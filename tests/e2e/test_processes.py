"""`postern serve --processes 2`."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.e2e.postern import Postern, alive, children, until

Serve = Callable[..., Postern]


def test_two_serve_as_one(serve: Serve) -> None:
    server = serve("--processes", "2")
    server.expected_errors |= {"process_died"}
    assert server.out.read_text().count("Postern is ready") == 1
    first, second = children(server.pid)
    # New connections, spread by the kernel: that all of them reach one process has a chance of 1 in 2^39.
    assert [server.get("/health/live").status for _ in range(40)] == [200] * 40
    assert _answered_live(server) == 40

    # One is killed: those who come meanwhile wait in the backlog, which the parent holds, and nobody notices.
    os.kill(first, signal.SIGKILL)
    assert [server.get("/health/live").status for _ in range(30)] == [200] * 30
    until(lambda: len(children(server.pid)) == 2)
    assert second in children(server.pid)
    assert first not in children(server.pid)
    assert _answered_live(server) == 70

    pids = [*children(server.pid), server.postgres()]
    assert server.stop() == 0
    assert not any(map(alive, pids))
    assert not server.logged("process_killed")


def _answered_live(server: Postern) -> int:
    """As one scrape, of whichever process, counts them over all that ever were."""
    page = server.get("/metrics").body.decode()
    counted = re.findall(r'^sso_http_request_duration_seconds_count\{.*route="/health/live".*\} (\d+)', page, re.MULTILINE)
    return sum(map(int, counted))


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
