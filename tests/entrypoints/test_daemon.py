"""A serving process: its limits, and what happens to it when an actor keeps failing."""

import resource
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from adapters.metrics import PrometheusMetrics
from adapters.system import SystemSecrets
from core.domain.errors import Unavailable
from entrypoints import daemon, listening
from entrypoints.failures import StartFailed
from entrypoints.settings import read
from entrypoints.signals import Stopping
from tests.conftest import CapturedLog


class Doomed:
    name = "doomed"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep(0.1)
        raise RuntimeError("again")


class Patient:
    name = "patient"

    def __init__(self) -> None:
        self.finished = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(0.5, shield=True):
                await trio.sleep(0.4)
                self.finished = True


class _Postern:
    def __init__(self, *actors: object) -> None:
        self.actors = actors
        self.foundation = SimpleNamespace(metrics=PrometheusMetrics(), secrets=SystemSecrets())


async def test_an_actor_that_keeps_failing_ends_the_process_in_good_order(
    autojump_clock: MockClock,  # noqa: ARG001 - asked for, it makes time jump
    log: CapturedLog,
) -> None:
    log.allow("actor_given_up")
    stopping = Stopping()
    with trio.fail_after(3600), pytest.raises(StartFailed, match="The actor doomed kept failing"):
        async with daemon._actors(cast("Any", _Postern(Doomed())), stopping):
            await stopping.requested.wait()  # the server would finish what is in flight


async def test_actors_finish_their_unit_after_the_requests(autojump_clock: MockClock) -> None:  # noqa: ARG001 - asked for, it makes time jump
    patient = Patient()
    stopping = Stopping()
    async with daemon._actors(cast("Any", _Postern(patient)), stopping):
        await trio.sleep(1)
        stopping.request()
        await trio.sleep(0.5)
        assert not patient.finished
    assert patient.finished


async def test_actors_do_not_wait_for_requests_that_take_their_time(autojump_clock: MockClock) -> None:  # noqa: ARG001 - asked for, it makes time jump
    patient = Patient()
    stopping = Stopping()
    async with daemon._actors(cast("Any", _Postern(patient)), stopping):
        await trio.sleep(1)
        stopping.request()
        await trio.sleep(2)
        assert patient.finished


async def test_a_start_without_the_database_goes_on_without_the_keys(log: CapturedLog) -> None:
    class Away:
        async def published(self) -> None:
            raise Unavailable(retry_after=1)

    services = _Postern()
    services.foundation.signing_keys = Away()
    await daemon._know_keys(cast("Any", services))
    assert log.events("signing_keys_unknown")


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_descriptor_limit_is_raised_as_far_as_it_may(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    listening.raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1 << 20) if hard > 0 else 1 << 20, hard)
    listening.raise_descriptor_limit()


def test_a_system_that_promises_more_descriptors_than_it_gives_gets_what_it_has(monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    """As macOS does, which has no hard limit and whose kernel refuses more than its own."""
    limits = [256]

    def set_limit(_which: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limits[0] = wanted[0]

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limits[0], resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    listening.raise_descriptor_limit()
    assert limits == [10_240]
    (entry,) = log.events("descriptor_limit_not_raised")
    assert entry["limit"] == 10_240


def test_every_limit_reaches_the_server_and_the_application() -> None:
    settings = read(
        {
            "POSTERN_KEEP_ALIVE": "1s",
            "POSTERN_HEADER_TIMEOUT": "2s",
            "POSTERN_BODY_TIMEOUT": "3s",
            "POSTERN_SHUTDOWN_TIMEOUT": "4s",
            "POSTERN_REQUEST_TIMEOUT": "5s",
            "POSTERN_MOST_CONNECTIONS": "6",
            "POSTERN_MOST_REQUESTS": "8",
            "POSTERN_CONNECTIONS_PER_ADDRESS": "9",
            "POSTERN_TRUSTED_PROXIES": "10.0.0.0/8",
            "POSTERN_BODY_LIMIT": "8KiB",
            "POSTERN_BASE_URL": "https://id.example.com",
            "POSTERN_RATE_LIMITS": "off",
        }
    )
    server = daemon.server_settings(settings)
    assert (server.keep_alive, server.head_patience, server.transfer_patience, server.drain, server.most_connections) == (1, 2, 3, 4, 6)
    assert (server.most_connections_per_address, server.trusted_proxies) == (9, (ip_network("10.0.0.0/8"),))
    assert (server.most_requests, server.most_waiting, server.most_waiting_per_address) == (16, 16, 2)
    assert server.probes == {b"/health", b"/health/live", b"/health/ready"}
    assert daemon.metrics_server_settings(settings).most_connections == 100
    application = daemon.http_settings(settings, "1.2.3")
    assert not application.metrics_elsewhere
    assert (application.request_deadline, application.most_requests, application.body_limit) == (5, 8, 8192)
    assert (application.base_url, application.frontend_url, application.rate_limits, application.version) == (
        "https://id.example.com",
        "https://id.example.com/ui",
        False,
        "1.2.3",
    )


def test_a_listener_for_the_metrics_is_plain_and_takes_them_from_the_others(tmp_path: Path) -> None:
    files = {"POSTERN_TLS_CERTIFICATE": str(tmp_path / "chain.pem"), "POSTERN_TLS_KEY": str(tmp_path / "key.pem")}
    settings = read({**files, "POSTERN_METRICS_BIND": "127.0.0.1:9100"})
    assert daemon.http_settings(settings, "1.2.3").metrics_elsewhere
    assert daemon.server_settings(settings).certificate is not None
    assert daemon.metrics_server_settings(settings).certificate is None
