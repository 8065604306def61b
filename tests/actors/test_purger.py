"""The purgers on the real store: deleted data are removed, even if the purger dies or is blocked."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
import trio

from actors.job_worker import JobPace, Workplace
from actors.upkeep import Purger
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.upkeep.purging import PostgresDeletedOrganizations, PostgresDeletedServices
from core.domain.identifiers import OrganizationId
from core.domain.jobs import NewJob
from core.domain.services import services
from core.domain.tenancy.organizations import PURGE_JOB, purge_job
from core.usecases.jobs import PURGE_PATIENCE, Purge
from tests import patience
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres import served
from tests.adapters.postgres.conftest import Rows, Store
from tests.adapters.postgres.populous import ACME, MEMBERS, OTHER, counted, everything_of, fill, left_of
from tests.conftest import CapturedLog

ROOT: Final = Path(__file__).parents[2]


def purge_of(store: Store) -> Purge:
    return Purge(store.unit_of_work, PostgresDeletedOrganizations(store.pool), purge_job)


@asynccontextmanager
async def working(store: Store, metrics: RememberedMetrics | None = None, *, delay: timedelta = timedelta(0)) -> AsyncIterator[None]:
    purger = Purger(
        PURGE_JOB,
        purge_of(store),
        Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, metrics or RememberedMetrics(), no_spread),
        delay=delay,
        pace=JobPace(concurrency=1, poll=timedelta(seconds=0.3)),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(purger.run)
        yield
        nursery.cancel_scope.cancel()


async def delete(store: Store, organization: OrganizationId = ACME, *, queued: bool = True) -> None:
    async with store.unit_of_work() as uow:
        assert await uow.organizations.delete(organization, store.clock.now())
        if queued:
            await uow.jobs.add(purge_job(organization))
        await uow.commit()


async def jobs(store: Store) -> Rows:
    return await store.query("select payload, state, attempts, last_error from jobs where kind = %(kind)s", {"kind": PURGE_JOB})


async def until_no_job_is_left(store: Store) -> None:
    with trio.fail_after(patience.PATIENCE):
        while await jobs(store):
            await trio.sleep(0.02)


@pytest.fixture
async def filled(store: Store) -> Store:
    await fill(store)
    return store


async def test_a_deleted_organization_goes_and_no_other(filled: Store, log: CapturedLog) -> None:
    other = await everything_of(filled, OTHER)
    metrics = RememberedMetrics()
    await delete(filled)
    async with working(filled, metrics):
        await until_no_job_is_left(filled)
    assert await left_of(filled, ACME) == 0
    assert await filled.query("select slug from all_organizations") == [{"slug": "other"}]
    assert await everything_of(filled, OTHER) == other
    assert metrics.jobs == [(PURGE_JOB, True)]
    (line,) = log.events("purged")
    assert (line["owner"], line["kind"], line["level"]) == (str(ACME), PURGE_JOB, "info")
    assert line["rows"] > 9 * MEMBERS


async def test_a_job_that_names_a_living_organization_takes_nothing_away(filled: Store, log: CapturedLog) -> None:
    before = await everything_of(filled, ACME)
    async with filled.unit_of_work() as uow:
        await uow.jobs.add(purge_job(ACME))
        await uow.commit()
    async with working(filled):
        await until_no_job_is_left(filled)
    assert await everything_of(filled, ACME) == before
    assert not log.events("purged")


@pytest.mark.parametrize("payload", [{}, {"organization": None}, {"organization": "acme"}, {"organization": 7}])
async def test_a_job_that_names_none_dies(store: Store, payload: dict[str, str | int | None]) -> None:
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob(PURGE_JOB, payload))
        await uow.commit()
    async with working(store):
        with trio.fail_after(patience.PATIENCE):
            while (rows := await jobs(store))[0]["state"] != "dead":
                await trio.sleep(0.02)
    assert rows[0]["last_error"] == "The payload names no organization"


async def test_requests_that_found_it_alive_have_time_to_end(filled: Store) -> None:
    await delete(filled)
    async with working(filled, delay=timedelta(hours=1)):
        with trio.fail_after(patience.PATIENCE):
            while [job["attempts"] for job in await jobs(filled)] != [1]:
                await trio.sleep(0.02)
        assert (await counted(filled, ACME))["sessions"] == 2 * MEMBERS


async def test_after_that_time_it_goes(filled: Store) -> None:
    await delete(filled)
    began = trio.current_time()
    async with working(filled, delay=timedelta(seconds=0.5)):
        await until_no_job_is_left(filled)
    assert trio.current_time() - began >= 0.5
    assert await left_of(filled, ACME) == 0


async def test_a_process_killed_in_the_middle_leaves_the_rest_to_the_next(filled: Store) -> None:
    await delete(filled)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.actors.killed_purger", filled.url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = await trio.to_thread.run_sync(process.stdout.readline)
        process.send_signal(signal.SIGKILL)
    assert int(line) == MEMBERS
    # Its finished work stays, and the rest waits.
    (row,) = await filled.query("select count(*) as n from memberships where org_id = %(acme)s", {"acme": ACME})
    assert row["n"] == 0
    assert await left_of(filled, ACME) > 0
    assert [job["attempts"] for job in await jobs(filled)] == [1]
    async with working(filled):
        await until_no_job_is_left(filled)
    assert await left_of(filled, ACME) == 0
    assert await filled.query("select slug from all_organizations") == [{"slug": "other"}]


async def test_connections_that_are_lost_only_delay_it(filled: Store, log: CapturedLog) -> None:
    await delete(filled)
    log.allow("job_failed")
    async with working(filled):
        for _ in range(3):
            await trio.sleep(0.05)
            await filled.kill_backends()
        await until_no_job_is_left(filled)
    assert await left_of(filled, ACME) == 0
    assert not log.events("job_died")


async def test_what_no_job_is_left_for_is_taken_up(filled: Store, log: CapturedLog) -> None:
    await delete(filled, queued=False)
    async with working(filled):
        await trio.sleep(0.2)
    # The deletion is too fresh, since its job may still be under way.
    assert await left_of(filled, ACME) > 0
    assert not log.events("purges_were_stranded")
    await filled.query(
        "update all_organizations set deleted_at = deleted_at - %(patience)s where id = %(acme)s",
        {"patience": PURGE_PATIENCE, "acme": ACME},
    )
    async with working(filled):
        with trio.fail_after(patience.PATIENCE):
            while await filled.query("select id from all_organizations where id = %(acme)s", {"acme": ACME}):
                await trio.sleep(0.05)
        await until_no_job_is_left(filled)
    assert await left_of(filled, ACME) == 0
    assert [(line["kind"], line["purges"]) for line in log.events("purges_were_stranded")] == [(PURGE_JOB, 1)]


async def test_what_is_taken_up_is_not_taken_up_twice(filled: Store) -> None:
    for organization in (ACME, OTHER):
        await delete(filled, organization, queued=False)
    await filled.query("update all_organizations set deleted_at = deleted_at - %(patience)s", {"patience": PURGE_PATIENCE})
    purge = purge_of(filled)
    assert sorted(await purge.take_up_stranded()) == [ACME, OTHER]
    assert await purge.take_up_stranded() == []
    assert sorted(job["payload"]["organization"] for job in await jobs(filled)) == [str(ACME), str(OTHER)]


async def test_a_deleted_service_goes_the_same_way(store: Store, log: CapturedLog) -> None:
    await served.fill(store)
    other = await served.everything_of(store, served.APP)
    metrics = RememberedMetrics()
    await served.delete(store, served.SHOP)
    async with store.unit_of_work() as uow:
        await uow.jobs.add(services.purge_job(served.SHOP))
        await uow.commit()
    purger = Purger(
        services.PURGE_JOB,
        Purge(store.unit_of_work, PostgresDeletedServices(store.pool), services.purge_job),
        Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, metrics, no_spread),
        delay=timedelta(0),
    )
    assert purger.name == "service_purger"
    async with trio.open_nursery() as nursery:
        await nursery.start(purger.run)
        with trio.fail_after(patience.PATIENCE):
            while await store.query("select id from jobs"):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert await served.left_of(store, served.SHOP) == 0
    assert await store.query("select slug from all_services") == [{"slug": "app"}]
    assert await served.everything_of(store, served.APP) == other
    assert metrics.jobs == [(services.PURGE_JOB, True)]
    assert [line["owner"] for line in log.events("purged")] == [str(served.SHOP)]
