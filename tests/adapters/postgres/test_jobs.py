"""The job queue: every job done, by one worker at a time, through crashes and lost leases."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
import trio

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.jobs import PRIORITIES, PostgresJobQueue
from core.domain.errors import Unavailable
from core.domain.formats import Json
from core.domain.identifiers import JobId, UserId
from core.domain.jobs import Job, NewJob, QueueState
from core.domain.mail import Mail
from tests.adapters.postgres.conftest import Store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

LEASE = timedelta(minutes=1)
SECRET_LINK = "https://id.example.org/reset?token=only-for-ada"


@pytest.fixture
def queue(store: Store) -> PostgresJobQueue:
    return PostgresJobQueue(store.pool, store.keyring)


async def add(store: Store, *jobs: NewJob) -> list[JobId]:
    async with store.unit_of_work() as uow:
        ids = [await uow.jobs.add(job) for job in jobs]
        await uow.commit()
    return ids


async def claim_one(queue: PostgresJobQueue, kind: str = "mail") -> Job:
    (job,) = await queue.claim([kind], 1, LEASE)
    return job


async def run_out(store: Store, job: Job) -> None:
    """Ends the lease, as if the worker had died and time had passed."""
    await store.query("update jobs set leased_until = now() - interval '1 second' where id = %(id)s", {"id": job.id})


async def test_a_job_is_claimed_with_what_was_queued(store: Store, queue: PostgresJobQueue) -> None:
    payload: dict[str, Json] = {"to": "ada", "attempt": 1, "tags": ["a", None, True], "deep": {"x": 1.5}, "odd": "nul \0 and \ud800 half"}
    (added,) = await add(store, NewJob("mail", payload))
    job = await claim_one(queue)
    assert (job.id, job.kind, job.payload, job.attempts) == (added, "mail", payload, 1)
    assert timedelta(0) < job.leased_until - datetime.now(UTC) <= LEASE + timedelta(seconds=1)


async def test_a_job_of_a_transaction_that_rolls_back_does_not_exist(store: Store, queue: PostgresJobQueue) -> None:
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}))
    assert await queue.claim(["mail"], 10, LEASE) == []


async def test_a_job_for_an_account_alone_is_queued_only_while_there_is_one(store: Store, queue: PostgresJobQueue) -> None:
    account, _ = await store.sign_up()
    added, _ = await add(store, NewJob("mail", {"to": "ada"}, only_for=account.id), NewJob("mail", {}, only_for=UserId(uuid4())))
    (job,) = await queue.claim(["mail"], 10, LEASE)
    assert (job.id, job.payload) == (added, {"to": "ada"})


async def test_a_withdrawn_job_is_gone_and_its_worker_is_told(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {"number": 1}), NewJob("mail", {"number": 2}), NewJob("other", {}))
    held = await claim_one(queue)
    async with store.unit_of_work() as uow:
        await uow.jobs.withdraw("mail")
        await uow.jobs.add(NewJob("mail", {"number": 3}))
        await uow.commit()
    assert not await queue.extend(held, LEASE)
    assert not await queue.complete(held)
    assert [job.payload["number"] for job in await queue.claim(["mail"], 9, LEASE)] == [3]
    assert len(await queue.claim(["other"], 9, LEASE)) == 1


async def test_a_claimed_job_is_nobody_else_s(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    await claim_one(queue)
    assert await queue.claim(["mail"], 10, LEASE) == []


async def test_only_the_kinds_asked_for_and_no_more_than_the_limit(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, *[NewJob(kind, {}) for kind in ("mail", "webhook", "mail", "siem", "mail")])
    assert [job.kind for job in await queue.claim(["mail", "siem"], 3, LEASE)] == ["mail", "mail", "mail"]
    assert [job.kind for job in await queue.claim(["mail", "siem"], 3, LEASE)] == ["siem"]
    assert await queue.claim([], 3, LEASE) == []


async def test_what_goes_first_goes_first_and_then_the_oldest(store: Store, queue: PostgresJobQueue) -> None:
    now = datetime.now(UTC)
    for number, (priority, age) in enumerate([(0, 1), (-1, 9), (0, 3), (1, 0), (0, 2), (1, 5)]):
        await add(store, NewJob("mail", {"number": number}, priority=priority, run_at=now - timedelta(minutes=age)))
    assert [job.payload["number"] for job in await queue.claim(["mail"], 2, LEASE)] == [5, 3]
    others = await queue.claim(["mail"], 9, LEASE)
    assert [(job.payload["number"], job.priority) for job in others] == [(2, 0), (4, 0), (0, 0), (1, -1)]


async def test_a_priority_that_nobody_looks_under_cannot_be_queued(store: Store) -> None:
    for priority in PRIORITIES:
        await add(store, NewJob("mail", {}, priority=priority))
    for priority in (min(PRIORITIES) - 1, max(PRIORITIES) + 1):
        with pytest.raises(psycopg.errors.CheckViolation):
            await add(store, NewJob("mail", {}, priority=priority))


async def test_a_job_for_later_waits_for_its_time(store: Store, queue: PostgresJobQueue) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await add(store, NewJob("mail", {}, run_at=later))
    assert await queue.claim(["mail"], 1, LEASE) == []
    assert await queue.due_in(["mail"]) == pytest.approx(3600, abs=10)
    await store.query("update jobs set run_at = now()")
    assert len(await queue.claim(["mail"], 1, LEASE)) == 1


async def test_fifty_workers_do_five_hundred_jobs_once_each(store: Store, queue: PostgresJobQueue) -> None:
    added = await add(store, *[NewJob("mail", {"number": number}) for number in range(500)])
    done: Counter[JobId] = Counter()

    async def work() -> None:
        while jobs := await queue.claim(["mail"], 3, LEASE):
            for job in jobs:
                done[job.id] += 1
                assert await queue.complete(job)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(work)
    assert done == Counter(added)
    assert await store.count("jobs") == 0


async def test_a_claim_does_not_wait_for_another_that_is_under_way(store: Store, queue: PostgresJobQueue) -> None:
    _, second = await add(store, NewJob("mail", {}), NewJob("mail", {}))
    async with await Connection.connect(store.url) as other, other.transaction():
        await other.execute("select from jobs order by id limit 1 for update")
        with trio.fail_after(PATIENCE):
            assert [job.id for job in await queue.claim(["mail"], 1, LEASE)] == [second]


async def test_a_lease_that_ran_out_makes_the_job_claimable_again(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    first = await claim_one(queue)
    assert await queue.claim(["mail"], 1, LEASE) == []
    await run_out(store, first)
    second = await claim_one(queue)
    assert (second.id, second.attempts) == (first.id, 2)
    assert second.lease != first.lease


async def test_a_job_that_was_not_tried_waits_and_counts_no_attempt(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    job = await claim_one(queue)
    assert await queue.postpone(job, timedelta(minutes=1), "the database is away")
    (row,) = await store.query("select run_at > now() + interval '50 s' as later, last_error, lease, attempts from jobs")
    assert row == {"later": True, "last_error": "the database is away", "lease": None, "attempts": 0}
    assert not await queue.postpone(job, timedelta(minutes=1), "somebody else has it")


async def test_a_claim_whose_answer_got_lost_counts_no_attempt(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))

    with suppress(Unavailable), queue._lost_claims.lease(("mail",)) as lease:
        await store.query(
            "update jobs set lease = %(lease)s, leased_until = now() + interval '1 minute', attempts = 1 where kind = 'mail'",
            {"lease": lease},
        )
        raise Unavailable(retry_after=1)
    job = await claim_one(queue)
    assert (job.lease, job.attempts) == (lease, 1)


async def test_who_has_lost_the_lease_has_no_say(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    slow = await claim_one(queue)
    await run_out(store, slow)
    quick = await claim_one(queue)
    assert not await queue.complete(slow)
    assert not await queue.retry(slow, datetime.now(UTC), "late")
    assert not await queue.bury(slow, "late")
    assert not await queue.extend(slow, LEASE)
    assert await store.query("select state, last_error, lease from jobs") == [
        {"state": "waiting", "last_error": None, "lease": quick.lease}
    ]
    assert await queue.complete(quick)
    assert not await queue.complete(quick)


async def test_a_lease_that_ran_out_but_was_not_taken_still_counts(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    job = await claim_one(queue)
    await run_out(store, job)
    assert await queue.complete(job)


async def test_an_extended_lease_lasts_longer(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    job = await claim_one(queue)
    await run_out(store, job)
    assert await queue.extend(job, LEASE)
    assert await queue.claim(["mail"], 1, LEASE) == []


async def test_a_failed_job_comes_back_at_its_time_with_its_error(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))
    job = await claim_one(queue)
    at = datetime.now(UTC) + timedelta(minutes=5)
    assert await queue.retry(job, at, "421 \0 try again" + "!" * 5000)
    (row,) = await store.query("select run_at, last_error, lease, leased_until, attempts from jobs")
    assert row["last_error"].startswith("421 \N{REPLACEMENT CHARACTER} try again!")
    assert len(row["last_error"]) == 2000
    assert (row["run_at"], row["lease"], row["leased_until"], row["attempts"]) == (at, None, None, 1)
    assert await queue.claim(["mail"], 1, LEASE) == []
    await store.query("update jobs set run_at = now()")
    again = await claim_one(queue)
    assert (again.id, again.attempts, again.created_at) == (job.id, 2, job.created_at)


async def test_a_dead_job_is_kept_and_not_done_again(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {"to": "ada"}))
    job = await claim_one(queue)
    assert await queue.bury(job, "550 no such user")
    assert await queue.claim(["mail"], 1, LEASE) == []
    assert await queue.due_in(["mail"]) is None
    (row,) = await store.query("select state, payload, last_error, lease, died_at > now() - interval '1 minute' as just_now from jobs")
    assert row == {"state": "dead", "payload": {"to": "ada"}, "last_error": "550 no such user", "lease": None, "just_now": True}


async def test_a_sealed_payload_cannot_be_read_in_the_table(store: Store, queue: PostgresJobQueue) -> None:
    mail = Mail(to="ada@example.org", subject="Reset", text=SECRET_LINK, html=f"<a href='{SECRET_LINK}'>here</a>")
    await add(store, mail.as_job())
    (row,) = await store.query("select jobs::text as everything, payload, sealed_payload from jobs")
    assert row["payload"] is None
    assert "only-for-ada" not in row["everything"]
    assert b"only-for-ada" not in row["sealed_payload"]
    assert (await claim_one(queue)).payload["text"] == SECRET_LINK


async def test_a_sealed_payload_moved_to_another_job_does_not_open(store: Store, queue: PostgresJobQueue, log: CapturedLog) -> None:
    log.allow("job_payload_unreadable")
    for link in ("one", "two"):
        await add(store, NewJob("mail", {"link": link}, sealed=True))
    await store.query("update jobs set sealed_payload = other.sealed_payload from jobs as other where other.id <> jobs.id")
    assert await queue.claim(["mail"], 10, LEASE) == []


async def test_a_payload_whose_key_is_away_waits_for_it_and_holds_up_nobody(
    store: Store, queue: PostgresJobQueue, log: CapturedLog
) -> None:
    log.allow("job_payload_unreadable")
    sealed, plain = await add(store, NewJob("mail", {"to": "ada"}, sealed=True), NewJob("mail", {"to": "bob"}))
    elsewhere = PostgresJobQueue(store.pool, AesGcmKeyRing([EncryptionKey("other", b"2" * 32)]))
    assert [job.id for job in await elsewhere.claim(["mail"], 10, LEASE)] == [plain]
    assert [entry["job"] for entry in log.events("job_payload_unreadable")] == [str(sealed)]
    (row,) = await store.query("select attempts, lease, run_at > now() as later, last_error from jobs where id = %(id)s", {"id": sealed})
    assert row == {"attempts": 0, "lease": None, "later": True, "last_error": "no key in force opens the payload"}
    await store.query("update jobs set run_at = now()")
    assert (await claim_one(queue)).payload == {"to": "ada"}


async def test_when_the_next_job_falls_due(store: Store, queue: PostgresJobQueue) -> None:
    assert await queue.due_in(["mail"]) is None
    now = datetime.now(UTC)
    soon, later = now + timedelta(minutes=1), now + timedelta(hours=1)
    await add(store, NewJob("mail", {}, run_at=later), NewJob("siem", {}, run_at=soon, priority=-1), NewJob("webhook", {}))
    assert await queue.due_in(["mail"]) == pytest.approx(3600, abs=10)
    assert await queue.due_in(["mail", "siem"]) == pytest.approx(60, abs=10)
    due = await queue.due_in(["webhook"])
    assert due is not None
    assert -10 < due <= 0
    await claim_one(queue, "webhook")
    # Its worker may die: then the job is due when its lease has ended.
    assert await queue.due_in(["webhook"]) == pytest.approx(LEASE.total_seconds(), abs=10)
    await add(store, NewJob("webhook", {}, run_at=soon - LEASE))
    assert await queue.due_in(["webhook"]) == pytest.approx(min(60 - LEASE.total_seconds(), LEASE.total_seconds()), abs=10)


async def test_the_state_of_the_queue_by_kind(store: Store, queue: PostgresJobQueue) -> None:
    assert await queue.state() == []
    now = datetime.now(UTC)
    oldest = now - timedelta(hours=1)
    await add(
        store,
        NewJob("mail", {}, run_at=now - timedelta(minutes=1), priority=1),
        NewJob("mail", {}, run_at=oldest, priority=-1),
        NewJob("siem", {}, run_at=now + timedelta(hours=1)),
        NewJob("webhook", {}),
    )
    assert await queue.bury(await claim_one(queue, "webhook"), "gone")
    assert await queue.state() == [
        QueueState("mail", waiting=2, dead=0, oldest_due=oldest),
        QueueState("siem", waiting=1, dead=0, oldest_due=None),
        QueueState("webhook", waiting=0, dead=1, oldest_due=None),
    ]


async def test_a_claim_reads_neither_a_long_backlog_nor_a_crowd_of_later_jobs(fresh_store: Store) -> None:
    queue = PostgresJobQueue(fresh_store.pool, fresh_store.keyring)
    await fresh_store.query("""
        insert into jobs (id, kind, payload, priority, run_at)
        select gen_random_uuid(), 'mail', '{}', n % 3 - 1, now() + (case when n % 2 = 0 then 1 else -1 end) * n * interval '1 second'
          from generate_series(1, 30000) as n
    """)
    await fresh_store.query("vacuum analyze jobs")
    await fresh_store.query("select pg_stat_reset()")
    for _ in range(12):  # from the sixth on with the plan that knows no parameters
        assert len(await queue.claim(["mail", "webhook"], 10, LEASE)) == 10
        await queue.due_in(["mail", "webhook"])
    await fresh_store.kill_backends()  # a backend that ends has reported its figures
    with trio.fail_after(PATIENCE):
        while True:
            (read,) = await fresh_store.query(
                "select seq_scan, idx_tup_fetch + seq_tup_read as rows from pg_stat_user_tables where relname = 'jobs'"
            )
            if read["rows"]:
                break
            await trio.sleep(0.02)
    assert read["seq_scan"] == 0
    assert read["rows"] < 3_000  # what is leased at the time is read too


async def test_each_call_is_one_round_trip(store: Store, queue: PostgresJobQueue) -> None:
    async def all_calls() -> None:
        await add(store, NewJob("mail", {}), NewJob("mail", {}))
        round_trips.set(trips := TripCounter())
        first, second = await queue.claim(["mail"], 2, LEASE)
        await queue.due_in(["mail"])
        await queue.state()
        await queue.extend(first, LEASE)
        await queue.complete(first)
        await queue.retry(second, datetime.now(UTC), "later")
        (second,) = await queue.claim(["mail"], 2, LEASE)
        await queue.bury(second, "never")
        counted.append(trips.count)

    counted: list[int] = []
    for _ in range(2):
        await all_calls()
    assert counted[1] == 8


async def test_a_backend_killed_in_the_middle_of_a_claim_leaves_the_job_to_the_next(store: Store, queue: PostgresJobQueue) -> None:
    await add(store, NewJob("mail", {}))

    async def claim_in_vain() -> None:
        with pytest.raises(Unavailable):
            await queue.claim(["mail"], 1, LEASE)

    # The claim stands still in front of a lock on the whole table, and is killed there.
    async with trio.open_nursery() as nursery, await Connection.connect(store.url) as blocker, blocker.transaction():
        await blocker.execute("lock table jobs in share mode")
        nursery.start_soon(claim_in_vain)
        await store.somebody_waits()
        await store.kill_backends()
    assert (await claim_one(queue)).attempts == 1
