"""A serving process: its limits, its certificate, and what becomes of it when an actor keeps failing."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from adapters.metrics.prometheus import PrometheusMetrics
from adapters.system import SystemSecrets
from core.domain.errors import Unavailable
from entrypoints import daemon
from entrypoints.failures import StartFailed
from entrypoints.settings import SettingsError, read
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


class _Services:
    def __init__(self, *actors: object) -> None:
        self.actors = actors
        self.metrics = PrometheusMetrics()
        self.secrets = SystemSecrets()


async def test_an_actor_that_keeps_failing_ends_the_process_in_good_order(
    autojump_clock: MockClock,  # noqa: ARG001 - asked for, it makes time jump
    log: CapturedLog,
) -> None:
    log.allow("actor_given_up")
    stopping = Stopping()
    with trio.fail_after(3600), pytest.raises(StartFailed, match="The actor doomed kept failing"):
        async with daemon._actors(cast(Any, _Services(Doomed())), stopping):
            await stopping.requested.wait()  # the server would finish what is in flight


async def test_actors_finish_their_unit_after_the_requests(autojump_clock: MockClock) -> None:  # noqa: ARG001 - asked for, it makes time jump
    patient = Patient()
    stopping = Stopping()
    async with daemon._actors(cast(Any, _Services(patient)), stopping):
        await trio.sleep(1)
        stopping.request()
        await trio.sleep(0.5)
        assert not patient.finished
    assert patient.finished


async def test_actors_do_not_wait_for_requests_that_take_their_time(autojump_clock: MockClock) -> None:  # noqa: ARG001 - asked for, it makes time jump
    patient = Patient()
    stopping = Stopping()
    async with daemon._actors(cast(Any, _Services(patient)), stopping):
        await trio.sleep(1)
        stopping.request()
        await trio.sleep(2)
        assert patient.finished


async def test_a_start_without_the_database_goes_on_without_the_keys(log: CapturedLog) -> None:
    class Away:
        async def published(self) -> None:
            raise Unavailable(retry_after=1)

    services = _Services()
    services.signing_keys = Away()  # type: ignore[attr-defined]  # only this test needs it
    await daemon._know_keys(cast(Any, services))
    assert log.events("signing_keys_unknown")


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_descriptor_limit_is_raised_as_far_as_it_may(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    daemon.raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1 << 20) if hard > 0 else 1 << 20, hard)
    daemon.raise_descriptor_limit()


def test_a_certificate_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    daemon.require_certificate(read({}))
    for content in (None, "not a certificate"):
        if content is not None:
            (tmp_path / "pem").write_text(content)
        settings = read({"POSTERN_TLS_CERTIFICATE": str(tmp_path / "pem"), "POSTERN_TLS_KEY": str(tmp_path / "pem")})
        with pytest.raises(SettingsError, match="POSTERN_TLS_CERTIFICATE or POSTERN_TLS_KEY cannot be used: "):
            daemon.require_certificate(settings)


def test_every_limit_reaches_the_server_and_the_application() -> None:
    settings = read(
        {
            "POSTERN_KEEP_ALIVE": "1s",
            "POSTERN_HEADER_TIMEOUT": "2s",
            "POSTERN_BODY_TIMEOUT": "3s",
            "POSTERN_SHUTDOWN_TIMEOUT": "4s",
            "POSTERN_REQUEST_TIMEOUT": "5s",
            "POSTERN_MOST_CONNECTIONS": "6",
            "POSTERN_MOST_REQUESTS": "7",
            "POSTERN_BODY_LIMIT": "8KiB",
            "POSTERN_BASE_URL": "https://id.example.com",
            "POSTERN_RATE_LIMITS": "off",
        }
    )
    server = daemon.server_settings(settings)
    assert (server.keep_alive, server.head_patience, server.transfer_patience, server.drain, server.most_connections) == (1, 2, 3, 4, 6)
    application = daemon.http_settings(settings, "1.2.3")
    assert (application.request_deadline, application.most_requests, application.body_limit) == (5, 7, 8192)
    assert (application.base_url, application.frontend_url, application.rate_limits, application.version) == (
        "https://id.example.com",
        "https://id.example.com/ui",
        False,
        "1.2.3",
    )
