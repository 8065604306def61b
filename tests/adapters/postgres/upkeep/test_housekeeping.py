"""The janitor deletes expired rows, in batches, and nothing else."""

from datetime import UTC, datetime, timedelta

import pytest

from adapters.postgres.driver.connection import Connection
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.rate_limits import PostgresBuckets
from adapters.postgres.upkeep import housekeeping
from core.domain.errors import Unavailable
from core.domain.jobs import NewJob
from core.domain.rate_limits import RateLimit
from core.frozen import replace
from tests.adapters.postgres.conftest import Store

FIVE_SESSIONS = """
    insert into sessions (id, user_id, created_at, last_seen_at, expires_at)
    select gen_random_uuid(), users.id, now(), now(), now() - (n * 10 + 1) * interval '1 day' from users, generate_series(0, 4) as n
"""


async def test_sessions_of_exchanges_go_soon_after_their_end(store: Store) -> None:
    await store.sign_up()
    await store.query(
        """
        insert into sessions (id, user_id, created_at, last_seen_at, expires_at, ends_at, exchanged_from)
        select gen_random_uuid(), users.id, now(), now(), now(), now() - n * interval '4 minutes', case when n < 5 then users.id end
          from users, generate_series(0, 5) as n
        """
    )
    assert await housekeeping.sweep(store.pool, "EndedExchanges").delete_expired(10) == 2
    assert await housekeeping.sweep(store.pool, "EndedExchanges").delete_expired(10) == 0


async def test_sessions_go_thirty_days_after_they_expired(store: Store) -> None:
    await store.sign_up()
    await store.query(FIVE_SESSIONS)
    assert await housekeeping.sweep(store.pool, "ExpiredSessions").delete_expired(10) == 2
    assert await housekeeping.sweep(store.pool, "ExpiredSessions").delete_expired(10) == 0
    assert await store.count("sessions") == 4


async def test_sessions_go_thirty_days_after_they_were_revoked(store: Store) -> None:
    await store.sign_up(lifetime=timedelta(days=365))
    await store.query("update sessions set revoked_at = now() - interval '29 days'")
    assert await housekeeping.sweep(store.pool, "RevokedSessions").delete_expired(10) == 0
    await store.query("update sessions set revoked_at = now() - interval '31 days'")
    assert await housekeeping.sweep(store.pool, "RevokedSessions").delete_expired(10) == 1


async def test_what_was_opened_from_a_session_goes_with_it_and_not_before_it_is_over(store: Store) -> None:
    ada, root = await store.sign_up(lifetime=timedelta(days=60))
    kept = replace(store.session(ada, lifetime=timedelta(days=1)), parent=root.id, depth=1)
    async with store.unit_of_work() as uow:
        await uow.sessions.add(kept)
        await uow.commit()
    await store.query("update sessions set expires_at = now() - interval '31 days' where parent_id is not null")
    assert await housekeeping.sweep(store.pool, "ExpiredSessions").delete_expired(10) == 1
    assert [row["id"] for row in await store.query("select id from sessions")] == [root.id]
    # A session that lives on, even when another that was opened from the same one, or from it, has ended.
    living = replace(store.session(ada, lifetime=timedelta(days=1)), parent=root.id, depth=1)
    ended = replace(store.session(ada), parent=living.id, depth=2)
    async with store.unit_of_work() as uow:
        await uow.sessions.add(living)
        await uow.sessions.add(ended)
        await uow.commit()
    await store.query("update sessions set revoked_at = now() - interval '31 days' where id = %(id)s", {"id": ended.id})
    assert await housekeeping.sweep(store.pool, "RevokedSessions").delete_expired(10) == 1
    assert {row["id"] for row in await store.query("select id from sessions")} == {root.id, living.id}
    await store.query("update sessions set revoked_at = now() - interval '31 days'")
    await housekeeping.sweep(store.pool, "RevokedSessions").delete_expired(10)
    assert await store.count("sessions") == 0


async def test_rotated_refresh_tokens_go_after_thirty_days_and_the_current_one_stays(store: Store) -> None:
    _, session = await store.sign_up()
    await store.query(
        """
        insert into refresh_tokens (digest, session_id, created_at, rotated_at, rotated_by)
        values ('new', %(session)s, now(), null, null),
               ('late', %(session)s, now(), now() - interval '29 days', ''),
               ('old', %(session)s, now(), now() - interval '31 days', '')
        """,
        {"session": session.id},
    )
    assert await housekeeping.sweep(store.pool, "RotatedRefreshTokens").delete_expired(10) == 1
    assert {bytes(row["digest"]) for row in await store.query("select digest from refresh_tokens")} == {b"new", b"late"}


async def test_a_call_deletes_one_batch_and_passes_over_what_somebody_holds(store: Store) -> None:
    await store.sign_up()
    await store.query(FIVE_SESSIONS)
    await store.query("update sessions set expires_at = now() - interval '1 year'")
    sweep = housekeeping.sweep(store.pool, "ExpiredSessions")
    async with await Connection.connect(store.url) as holder, holder.transaction():
        await holder.execute("select from sessions order by id limit 2 for update")
        assert [await sweep.delete_expired(3) for _ in range(3)] == [3, 1, 0]
    assert await sweep.delete_expired(3) == 2


async def test_full_buckets_go(store: Store) -> None:
    await PostgresBuckets(store.pool).take(RateLimit("quick", 1, 0.0001), "a")
    await PostgresBuckets(store.pool).take(RateLimit("slow", 1, 1000), "a")
    assert await housekeeping.sweep(store.pool, "FullBuckets").delete_expired(10) == 1
    assert await store.query("select limit_name from rate_limit_buckets") == [{"limit_name": "slow"}]


async def test_signing_keys_go_when_nothing_that_they_signed_can_be_valid(store: Store) -> None:
    await store.query("""
        insert into signing_keys (id, purpose, state, public_jwk, sealed_private_key, created_at, retires_at)
        values ('gone', 'access', 'outgoing', '{}', '', now(), now() - interval '1 second'),
               ('old',  'id',     'outgoing', '{}', '', now(), now() - interval '401 days'),
               ('hint', 'id',     'outgoing', '{}', '', now(), now() - interval '399 days'),
               ('out',  'access', 'outgoing', '{}', '', now(), now() + interval '1 hour'),
               ('now',  'access', 'current',  '{}', '', now(), null),
               ('next', 'access', 'next',     '{}', '', now(), null)
    """)
    assert await housekeeping.sweep(store.pool, "RetiredSigningKeys").delete_expired(10) == 2
    assert [row["id"] for row in await store.query("select id from signing_keys order by id")] == ["hint", "next", "now", "out"]


async def test_dead_jobs_go_thirty_days_after_they_died_and_the_living_stay(store: Store) -> None:
    queue = PostgresJobQueue(store.pool, store.keyring)
    async with store.unit_of_work() as uow:
        for _ in range(3):
            await uow.jobs.add(NewJob("mail", {}, run_at=datetime.now(UTC) - timedelta(days=100)))
        await uow.commit()
    for job in await queue.claim(["mail"], 2, timedelta(minutes=1)):
        await queue.bury(job, "550")
    assert await housekeeping.sweep(store.pool, "DeadJobs").delete_expired(10) == 0
    await store.query("update jobs set died_at = now() - interval '31 days' where state = 'dead'")
    assert [await housekeeping.sweep(store.pool, "DeadJobs").delete_expired(1) for _ in range(3)] == [1, 1, 0]
    assert await store.count("jobs") == 1


async def test_a_backend_killed_in_mid_sweep_has_deleted_nothing(fresh_store: Store) -> None:
    await fresh_store.sign_up()
    await fresh_store.query("update sessions set expires_at = now() - interval '1 year'")
    await fresh_store.query("""
        create function die() returns trigger language plpgsql
            as 'begin perform pg_terminate_backend(pg_backend_pid()); return old; end'
    """)
    await fresh_store.query("create trigger die after delete on sessions for each row execute function die()")
    with pytest.raises(Unavailable):
        await housekeeping.sweep(fresh_store.pool, "ExpiredSessions").delete_expired(10)
    assert await fresh_store.count("sessions") == 1
