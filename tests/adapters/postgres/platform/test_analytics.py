"""The figures of the installation, and of one application: bounded statements over the newest rows."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from adapters.postgres.platform.analytics import PostgresAnalytics
from core.domain.identifiers import OrganizationId, ServiceId
from core.domain.platform.analytics import ActiveOrganization, AttemptsOfWay, LoginsOfDay
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.tenants import StoredTenants

NOON: Final = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
TODAY: Final = NOON.date()
SINCE: Final = TODAY - timedelta(days=30)
MANY: Final = 1000
SHOP, BOARD = ServiceId(uuid4()), ServiceId(uuid4())


class Attempts:
    """Attempts to sign in, with ids of their time, as sign-ins have them."""

    def __init__(self, store: Store) -> None:
        self.store, self.analytics, self.number = store, PostgresAnalytics(store.pool), 0

    async def add(
        self,
        count: int,
        organization: UUID | None,
        *,
        ago: int = 0,
        service: UUID | None = SHOP,
        provider: str = "password",
        reason: str | None = None,
    ) -> None:
        at = NOON - timedelta(days=ago)
        for _ in range(count):
            self.number += 1
            values: dict[str, Any] = {
                "id": UUID(int=(int(at.timestamp() * 1000) << 80) | (7 << 76) | (2 << 62) | self.number),
                "organization": organization,
                "service": service,
                "provider": provider,
                "success": reason is None,
                "reason": reason,
                "at": at,
            }
            await self.store.query(
                "insert into login_events (id, organization_id, service_id, provider, success, reason, created_at)"
                " values (%(id)s, %(organization)s, %(service)s, %(provider)s, %(success)s, %(reason)s, %(at)s)",
                values,
            )


@pytest.fixture
async def attempts(fresh_store: Store) -> Attempts:
    await fresh_store.query("delete from login_events")
    return Attempts(fresh_store)


async def test_sign_ins_of_the_installation_are_counted_once(attempts: Attempts) -> None:
    """A sign-in waits in one table, and is counted in the other."""
    await attempts.add(2, None)
    await attempts.add(3, uuid4(), ago=2)
    await attempts.add(4, uuid4(), ago=40)
    await attempts.add(1, uuid4(), reason="wrong_password")
    await attempts.store.query(
        "insert into platform_login_counts (hour, provider, logins) values (%(at)s, 'saml', 5)", {"at": NOON - timedelta(days=2)}
    )
    assert await attempts.analytics.of_installation(SINCE) == [LoginsOfDay(TODAY - timedelta(days=2), 8), LoginsOfDay(TODAY, 2)]


async def test_failures_of_the_installation_leave_out_visits_that_a_rule_refused(attempts: Attempts) -> None:
    await attempts.add(2, None, reason="wrong_password")
    await attempts.add(1, uuid4(), reason="no_role")
    await attempts.add(3, uuid4(), ago=3, reason="wrong_code")
    await attempts.add(4, uuid4(), ago=40, reason="wrong_code")
    found = await attempts.analytics.failures_of_installation(SINCE, MANY)
    assert (found.since, found.days) == (SINCE, [LoginsOfDay(TODAY - timedelta(days=3), 3), LoginsOfDay(TODAY, 2)])
    # With fewer rows to read, the oldest day is not whole any more.
    found = await attempts.analytics.failures_of_installation(SINCE, 4)
    assert (found.since, found.days) == (TODAY - timedelta(days=2), [LoginsOfDay(TODAY, 2)])


async def test_the_most_active_organizations_are_those_of_the_newest_attempts(attempts: Attempts) -> None:
    tenants = StoredTenants(attempts.store)
    acme, globex, quiet = await tenants.add("acme"), await tenants.add("globex"), await tenants.add("quiet")
    await attempts.add(9, quiet, ago=5)
    await attempts.add(2, acme)
    await attempts.add(1, acme, reason="wrong_password")
    await attempts.add(3, globex)
    await attempts.add(7, None)
    await attempts.add(7, uuid4())
    found = await attempts.analytics.most_active(SINCE, MANY, 5)
    assert found == [
        ActiveOrganization(quiet, "Quiet", 9, 0),
        ActiveOrganization(globex, "Globex", 3, 0),
        ActiveOrganization(acme, "Acme", 2, 1),
    ]
    assert [one.name for one in await attempts.analytics.most_active(SINCE, MANY, 1)] == ["Quiet"]
    assert [one.name for one in await attempts.analytics.most_active(SINCE, 20, 5)] == ["Globex", "Acme"]


async def test_attempts_of_an_application_are_told_by_day_and_way_and_of_no_other(attempts: Attempts) -> None:
    acme, globex = OrganizationId(uuid4()), OrganizationId(uuid4())
    await attempts.add(2, acme, ago=1)
    await attempts.add(1, acme, ago=1, reason="wrong_password")
    await attempts.add(3, acme, provider="passkey")
    await attempts.add(1, acme, reason="no_role")
    await attempts.add(4, acme, service=BOARD)
    await attempts.add(5, globex)
    await attempts.add(6, acme, ago=40)
    yesterday = TODAY - timedelta(days=1)
    found = await attempts.analytics.by_way(acme, SHOP, SINCE, MANY)
    assert (found.since, found.attempts) == (
        SINCE,
        [AttemptsOfWay(yesterday, "password", 2, 1), AttemptsOfWay(TODAY, "passkey", 3, 0)],
    )
    assert (await attempts.analytics.by_way(globex, BOARD, SINCE, MANY)).attempts == []
    # The attempts at other applications count for how far back it reaches.
    found = await attempts.analytics.by_way(acme, SHOP, SINCE, 9)
    assert (found.since, found.attempts) == (TODAY, [AttemptsOfWay(TODAY, "passkey", 3, 0)])


async def test_growth_is_told_by_the_days_on_which_organizations_and_people_came(attempts: Attempts) -> None:
    store = attempts.store
    tenants = StoredTenants(store)
    for slug, ago in (("acme", 0), ("globex", 2), ("gone", 0), ("old", 40)):
        organization = await tenants.add(slug)
        at = NOON - timedelta(days=ago)
        deleted = slug == "gone"
        await store.query(
            "update all_organizations set created_at = %(at)s, deleted_at = case when %(deleted)s then now() end where id = %(id)s",
            {"at": at, "deleted": deleted, "id": organization},
        )
    for number, ago in enumerate((0, 0, 5, 40)):
        at, email = NOON - timedelta(days=ago), f"p{number}@example.org"
        await store.query(
            "insert into users (id, email, email_key, created_at, updated_at) values (%(id)s, %(email)s, %(email)s, %(at)s, %(at)s)",
            {"id": store.ids.new(), "email": email, "at": at},
        )
    found = await attempts.analytics.growth(SINCE, MANY)
    assert found.organizations == {TODAY: 1, TODAY - timedelta(days=2): 1}
    assert (found.since, found.people) == (SINCE, {TODAY: 2, TODAY - timedelta(days=5): 1})
    found = await attempts.analytics.growth(SINCE, 3)
    assert (found.since, found.people) == (TODAY - timedelta(days=4), {TODAY: 2})
    assert found.organizations == {TODAY: 1, TODAY - timedelta(days=2): 1}
