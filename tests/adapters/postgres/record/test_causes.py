"""Processes of an earlier release do not know the column of the request: their rows are written, read, linked and done as ever."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from adapters.postgres.jobs import PostgresJobQueue
from adapters.postgres.record.events import PostgresStories
from core.domain.causes import caused_by
from core.domain.jobs import NewJob
from core.domain.record.stories import sought_story
from tests.adapters.postgres.conftest import Store

# The columns that the release before names.
OF_AN_EARLIER_RELEASE: Final = {
    "audit_entries": """
        insert into audit_entries (id, organization_id, actor_id, impersonator_id, action, target_type, target_id, success, details,
                                   personal_digest, created_at)
        values (%(id)s, null, null, null, 'role.created', 'role', '1', true, '{}', null, now())""",
    "events": """
        insert into events (id, name, organization_id, actor_id, impersonator_id, target_type, target_id, details, personal, occurred_at)
        values (%(id)s, 'role.created', null, null, null, 'role', '1', '{}', null, now())""",
    "webhook_deliveries": """
        insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)
        values (%(id)s, gen_random_uuid(), gen_random_uuid(), 'role.created', now(), now(), now())""",
    "login_events": """
        insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, reason, address, user_agent,
                                  risk_score, risk_factors, flagged, country, city, created_at)
        values (%(id)s, null, null, null, null, 'password', true, null, null, null, 0, '{}', false, null, null, now())""",
    "jobs": """
        insert into jobs (id, kind, payload, sealed_payload, priority, run_at) values (%(id)s, 'mail', '{}', null, 0, now())""",
}


@pytest.mark.parametrize("table", OF_AN_EARLIER_RELEASE)
async def test_a_row_of_an_earlier_release_has_no_cause_and_is_in_no_story(store: Store, table: str) -> None:
    await store.query(OF_AN_EARLIER_RELEASE[table], {"id": store.ids.new()})
    assert await store.query(f"select request_id from {table}") == [{"request_id": None}]
    found = await PostgresStories(store.pool, store.keyring).find(sought_story(str(store.ids.new()), None, None, datetime.now(UTC)))
    assert found.rows == []


async def test_a_job_is_claimed_with_its_cause_or_without(store: Store) -> None:
    request = store.ids.new()
    with caused_by(request):
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.commit()
    await store.query(OF_AN_EARLIER_RELEASE["jobs"], {"id": store.ids.new()})
    jobs = await PostgresJobQueue(store.pool, store.keyring).claim(["mail"], 2, timedelta(minutes=1))
    assert [job.request for job in jobs] == [request, None]
