"""The metrics that the database knows: one statement says what several questions say."""

from datetime import UTC, datetime, timedelta

import pytest

from adapters.postgres import database
from adapters.postgres.federation.directory_runs import DIRECTORY_STEPS_COUNTED
from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.platform.gauges import PostgresGauges
from adapters.postgres.record.audit import PostgresAuditLog
from core.domain.jobs import NewJob
from core.domain.record.events import SYSTEM, Event, Target
from ports.metrics import Population
from ports.platform import DatabaseGauges, DirectoriesInNeed
from ports.record import Backlog
from ports.services.billing import WaitingBillingEvents
from tests.adapters.postgres.conftest import Store


def gauges_of(store: Store) -> PostgresGauges:
    return PostgresGauges(store.pool, DIRECTORY_STEPS_COUNTED)


async def test_an_empty_installation_has_gauges_at_zero(store: Store) -> None:
    assert await gauges_of(store).read() == DatabaseGauges(
        Population(0, 0, 0), [], Backlog(0, None), WaitingBillingEvents(0, None), None, DirectoriesInNeed(0, 0), {}
    )


async def test_active_users_are_counted(store: Store) -> None:
    for name in ("ada", "bob", "eve"):
        await store.sign_up(f"{name}@example.org")
    await store.query("update users set deactivated_at = now() where email = 'eve@example.org'")
    assert (await gauges_of(store).read()).population == Population(active_users=2, organizations=0, mfa_enabled_users=0)


async def test_second_factors_count_once_in_force_and_with_an_active_user(store: Store) -> None:
    for name, state in (("ada", "now()"), ("bob", "null"), ("eve", "now()")):
        account, _ = await store.sign_up(f"{name}@example.org")
        await store.query(f"insert into mfa_secrets values (%(user)s, '', now(), {state})", {"user": account.id})
    await store.query("update users set deactivated_at = now() where email = 'eve@example.org'")
    assert (await gauges_of(store).read()).population == Population(active_users=2, organizations=0, mfa_enabled_users=1)


async def test_a_crowd_is_estimated_and_not_counted(fresh_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "COUNTED_EXACTLY", 1000)
    await fresh_store.query("""
        insert into users (id, email, email_key, deactivated_at)
        select gen_random_uuid(), n::text, n::text, case when n % 4 = 0 then now() end from generate_series(1, 20000) as n
    """)
    gauges = gauges_of(fresh_store)
    # Before the first statistics are gathered, all that is known is that there are at least so many.
    assert (await gauges.read()).population.active_users == 1000
    await fresh_store.query("vacuum analyze users")
    assert (await gauges.read()).population.active_users == pytest.approx(15_000, rel=0.05)


async def test_everything_is_what_each_question_says_alone(store: Store) -> None:
    now = datetime.now(UTC)
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}, run_at=now - timedelta(hours=1)))
        await uow.jobs.add(NewJob("siem", {}, run_at=now + timedelta(hours=1)))
        await uow.record(Event("platform.backup.checked", SYSTEM, Target("backup", "b"), details={}))
        await uow.commit()
    await store.query("""
        insert into signing_keys (id, purpose, state, public_jwk, sealed_private_key, created_at, activated_at)
        values ('a', 'access', 'current', '{}', '', now() - interval '9 days', now() - interval '2 days'),
               ('b', 'access', 'next', '{}', '', now(), null),
               ('c', 'id', 'current', '{}', '', now() - interval '3 days', null)
    """)
    gauges = await gauges_of(store).read()
    assert [(one.kind, one.waiting) for one in gauges.queue] == [("mail", 1), ("siem", 1)]
    assert gauges.queue == await PostgresJobQueue(store.pool, store.keyring).state()
    assert (gauges.audit.pending, gauges.audit.oldest is None) == (1, False)
    assert gauges.backup_checked == await PostgresAuditLog(store.pool).last("platform.backup.checked") is not None
    ages = {purpose: round((now - since) / timedelta(days=1)) for purpose, since in gauges.keys_since.items()}
    assert ages == {"access": 2, "id": 3}
