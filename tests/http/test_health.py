"""Health and readiness: exactly what probes are promised."""

from dataclasses import replace
from pathlib import Path

from entrypoints.bootstrap import Services
from entrypoints.http.application import build_application
from tests.http.client import Client
from tests.http.conftest import NOWHERE, SETTINGS, services_on


async def test_health_says_that_the_process_is_up_and_which_version(lonely_client: Client, lonely_services: Services) -> None:
    answer = await lonely_client.get("/health")
    assert (answer.status, answer.json()) == (200, {"status": "healthy", "version": lonely_services.version})


async def test_live_answers_without_a_body(lonely_client: Client) -> None:
    answer = await lonely_client.get("/health/live")
    assert (answer.status, answer.body, answer.header("content-length")) == (200, b"", "0")


async def test_ready_with_its_database_and_not_without_it(client: Client, services: Services, tmp_path: Path) -> None:
    answer = await client.get("/health/ready")
    assert answer.status == 200
    assert answer.json() == {"status": "ready", "version": services.version, "database": "connected"}
    async with services_on(NOWHERE, tmp_path) as lonely:
        # The same process, as the probe sees it when the database goes, and when it comes back.
        away = Client(build_application(replace(services, database=lonely.database), SETTINGS))
        answer = await away.get("/health/ready")
        assert answer.status == 503
        assert answer.json() == {"status": "unhealthy", "version": services.version, "database": "disconnected"}
    assert (await client.get("/health/ready")).status == 200
