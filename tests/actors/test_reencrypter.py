"""The reencrypter, on the real store: after a rotation, a process that has the new key seals everything under it."""

from datetime import timedelta

import trio

from actors.job_worker import Workplace
from actors.upkeep import reencrypter
from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.upkeep.housekeeping import PostgresSealedColumns
from core.domain.jobs import NewJob
from core.usecases.keys import REENCRYPTION_JOB, Reencryption, reencryption_job
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres.conftest import Rows, Store
from tests.patience import PATIENCE

OLD, NEW = EncryptionKey("first", b"1" * 32), EncryptionKey("second", b"2" * 32)


async def work(store: Store, keyring: AesGcmKeyRing, nursery: trio.Nursery) -> None:
    actor = reencrypter(
        Reencryption(keyring, PostgresSealedColumns(store.pool, keyring)),
        Workplace(PostgresJobQueue(store.pool, keyring), store.doorbell, store.clock, RememberedMetrics(), no_spread),
    )
    await nursery.start(actor.run)


async def reencryption_jobs(store: Store) -> Rows:
    return await store.query(
        "select state, last_error, run_at - clock_timestamp() as pause from jobs where kind = %(kind)s", {"kind": REENCRYPTION_JOB}
    )


async def add(store: Store, *jobs: NewJob) -> None:
    async with store.unit_of_work() as uow:
        for job in jobs:
            await uow.jobs.add(job)
        await uow.commit()


async def test_after_a_rotation_old_values_are_sealed_under_the_new_key(store: Store) -> None:
    ring = AesGcmKeyRing([NEW, OLD])
    await add(store, *(NewJob("mail", {"number": number}, sealed=True) for number in range(5)), reencryption_job(ring))
    async with trio.open_nursery() as nursery:
        await work(store, ring, nursery)
        with trio.fail_after(PATIENCE):
            while await reencryption_jobs(store):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    without_the_old = PostgresJobQueue(store.pool, AesGcmKeyRing([NEW]))
    jobs = await without_the_old.claim(["mail"], 10, timedelta(minutes=1))
    assert sorted(str(job.payload["number"]) for job in jobs) == list("01234")


async def test_a_process_without_the_new_key_leaves_the_job_to_another(store: Store) -> None:
    await add(store, reencryption_job(AesGcmKeyRing([NEW, OLD])))
    async with trio.open_nursery() as nursery:
        await work(store, AesGcmKeyRing([OLD]), nursery)
        with trio.fail_after(PATIENCE):
            while not (rows := await reencryption_jobs(store))[0]["last_error"]:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert rows[0]["state"] == "waiting"
    assert rows[0]["pause"] <= timedelta(seconds=5)


async def test_a_payload_without_a_key_dies(store: Store) -> None:
    await add(store, NewJob(REENCRYPTION_JOB, {}))
    async with trio.open_nursery() as nursery:
        await work(store, AesGcmKeyRing([OLD]), nursery)
        with trio.fail_after(PATIENCE):
            while (rows := await reencryption_jobs(store))[0]["state"] != "dead":
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert rows[0]["last_error"] == "The payload names no key"
