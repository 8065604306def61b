"""Counted sign-ins: exact at any moment, in any order of commits, and kept after their rows and services are deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
import trio

from actors.sweepers.due_sweepers import login_counter
from adapters.postgres.platform.analytics import PostgresLoginCounter
from adapters.postgres.upkeep.deleted_services import PostgresDeletedServices
from core.domain.platform.analytics import PAGE
from core.domain.services.services import purge_job
from core.usecases.purge import Purge
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.tenants import Tenant, UsedService
from tests.patience import PATIENCE

NOON: Final = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
_ADD: Final = """
    insert into login_events (id, user_id, organization_id, service_id, provider, success, created_at)
    select (lpad(to_hex((extract(epoch from %s::timestamptz) * 1000)::bigint), 12, '0')
            || substr(replace(gen_random_uuid()::text, '-', ''), 13))::uuid, %s, %s, %s, %s, %s, %s from generate_series(1, %s)
"""


class AnalyticsScene(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.member = self.speaker = self.resident(self.acme, "member")
        self.owner = self.resident(self.acme, "owner")
        self.governor = self.people.add("governor@example.org", platform_owner=True)
        self.guest = self.people.add()

    def signs_in(
        self,
        number: int = 1,
        *,
        at: datetime = NOON,
        to: UsedService | None = None,
        of: Tenant | None = None,
        provider: str = "password",
        success: bool = True,
        person: Person | None = None,
    ) -> None:
        who = (person or self.guest).user
        tenant = None if of is None and to is None else (of or self.acme).id
        self.people.change(_ADD, at, who, tenant, to and to.id, provider, success, at, number)

    async def ask(self, which: str, query: str = "", *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request("GET", f"/api/organizations/{of}/analytics/{which}{query}", by=by)

    async def listed(self, which: str, query: str = "?start_date=2026-03-01&end_date=2026-03-31") -> list[dict[str, Any]]:
        answer = await self.ask(which, query)
        assert answer.status == 200, answer.body
        listed: list[dict[str, Any]] = answer.json()
        return listed

    async def days(self) -> dict[str, int]:
        return {one["date"]: one["count"] for one in await self.listed("login-trends")}

    async def count(self) -> int:
        return await login_counter(PostgresLoginCounter(self.postern.foundation.pool), spread=lambda: 0.0).sweep()


@pytest.fixture
def house(postern: Postern, people: People, log: CapturedLog) -> AnalyticsScene:
    return AnalyticsScene(postern, people, unlimited(postern), log)


async def test_sign_ins_are_told_by_day_service_and_provider(house: AnalyticsScene) -> None:
    house.signs_in(3, to=house.shop)
    house.signs_in(2, to=house.app, provider="codehost", at=NOON + timedelta(days=1))
    house.signs_in(of=house.acme, at=NOON + timedelta(days=1))
    # These do not count: a failure, and sign-ins to another organization, to the platform, and on another day.
    house.signs_in(5, to=house.shop, success=False)
    house.signs_in(5, to=house.theirs, of=house.globex)
    house.signs_in(5)
    house.signs_in(5, to=house.shop, at=datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC))
    house.signs_in(5, to=house.shop, at=datetime(2026, 4, 1, tzinfo=UTC))
    for counted in (False, True):
        if counted:
            assert await house.count() == 3 + 2 + 1 + 5 + 5 + 5 + 5
        assert await house.listed("login-trends") == [{"date": "2026-03-10", "count": 3}, {"date": "2026-03-11", "count": 3}]
        assert await house.listed("logins-by-service") == [
            {"service_id": str(house.shop.id), "service_name": "Shop", "count": 3},
            {"service_id": str(house.app.id), "service_name": "App", "count": 2},
        ]
        assert await house.listed("logins-by-provider") == [{"provider": "password", "count": 4}, {"provider": "codehost", "count": 2}]
    assert await house.count() == 0


async def test_days_are_those_of_utc_and_both_ends_count(house: AnalyticsScene) -> None:
    for at in ("2026-03-10T00:00:00Z", "2026-03-10T23:59:59.999999Z", "2026-03-11T00:30:00+02:00", "2026-03-10T23:30:00-02:00"):
        house.signs_in(to=house.shop, at=datetime.fromisoformat(at))
    await house.count()
    assert await house.days() == {"2026-03-10": 3, "2026-03-11": 1}
    assert await house.listed("login-trends", "?start_date=2026-03-11&end_date=2026-03-11") == [{"date": "2026-03-11", "count": 1}]
    assert await house.listed("login-trends", "?start_date=0001-01-01&end_date=9999-12-31") != []


async def test_thirty_days_unless_somebody_says_otherwise(house: AnalyticsScene) -> None:
    now = house.postern.foundation.clock.now()
    for days in (0, 30, 31):
        house.signs_in(to=house.shop, at=now - timedelta(days=days))
    expected = [{"date": (now - timedelta(days=days)).date().isoformat(), "count": 1} for days in (30, 0)]
    assert await house.listed("login-trends", "") == expected
    first = (now - timedelta(days=31)).date().isoformat()
    assert len(await house.listed("login-trends", f"?start_date={first}")) == 3
    # The thirty days before another last day.
    assert await house.listed("login-trends", f"?end_date={first}") == [{"date": first, "count": 1}]


@pytest.mark.parametrize(
    "query",
    [
        *("?start_date=yesterday", "?start_date=2026-3-1", "?start_date=20260301", "?end_date=2026-02-30", "?end_date=2026-W10-1"),
        *("?start_date=", "?start_date=2026-03-02&end_date=2026-03-01", "?end_date=2026-03-01T00:00:00Z"),
    ],
)
async def test_what_is_no_day_is_refused(house: AnalyticsScene, query: str) -> None:
    for which in ("login-trends", "logins-by-service", "logins-by-provider"):
        answer = await house.ask(which, query)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_recent_sign_ins_are_the_newest_as_many_as_wanted(house: AnalyticsScene) -> None:
    now = house.postern.foundation.clock.now()
    for minutes in range(12):
        house.signs_in(to=house.shop, at=now - timedelta(minutes=minutes))
    house.signs_in(to=house.shop, success=False, at=now)
    house.signs_in(to=house.theirs, of=house.globex, at=now)
    recent = await house.listed("recent-logins", "")
    assert len(recent) == 10
    assert [one["created_at"] for one in recent] == sorted((one["created_at"] for one in recent), reverse=True)
    assert recent[0] == {
        "id": recent[0]["id"],
        "user_id": str(house.guest.user),
        "service_id": str(house.shop.id),
        "provider": "password",
        "created_at": recent[0]["created_at"],
    }
    assert len(await house.listed("recent-logins", "?limit=3")) == 3
    house.signs_in(2 * PAGE, to=house.shop)
    everything = await house.listed("recent-logins", "?limit=1000000000")
    assert len({one["id"] for one in everything}) == len(everything) == 2 * PAGE + 12
    for query in ("?limit=0", "?limit=-1", "?limit=many"):
        assert (await house.ask("recent-logins", query)).status == 400


async def test_members_alone_may_look(house: AnalyticsScene) -> None:
    stranger = house.resident(house.globex, "owner")
    for which in ("login-trends", "logins-by-service", "logins-by-provider", "recent-logins"):
        assert (await house.ask(which)).status == 200
        assert (await house.ask(which, by=stranger)).status == 403
        assert (await house.ask(which, of="nowhere")).status == 404
        assert (await house.client.get(f"/api/organizations/acme/analytics/{which}")).status == 401
        assert house.log.events("request")[-2]["db_round_trips"] <= 2
    house.people.change("update all_organizations set status = 'suspended' where id = %s", house.acme.id)
    assert (await house.ask("login-trends")).error_code == "ORGANIZATION_NOT_ACTIVE"


async def test_a_real_sign_in_is_counted_with_its_commit(house: AnalyticsScene) -> None:
    person = await house.people.with_password(PASSWORD)
    await Browser(house.client).tokens(person, org_slug="acme", service_slug="shop")
    today = house.postern.foundation.clock.now().date().isoformat()
    assert await house.listed("login-trends", "") == [{"date": today, "count": 1}]
    assert (await Browser(house.client).login(person, "wrong", org_slug="acme", service_slug="shop")).status == 401
    await house.count()
    assert await house.listed("login-trends", "") == [{"date": today, "count": 1}]


async def test_a_deleted_service_keeps_its_counts_under_its_last_name(house: AnalyticsScene) -> None:
    house.signs_in(4, to=house.shop)
    await house.count()
    house.signs_in(1, to=house.shop)
    path = "/api/organizations/acme/services/shop"
    (await house.request("PATCH", path, {"name": "The last name"}, by=house.owner)).ok()
    assert (await house.request("DELETE", path, by=house.owner)).status == 204
    expected = [{"service_id": str(house.shop.id), "service_name": "The last name", "count": 5}]
    assert await house.listed("logins-by-service") == expected
    remains = PostgresDeletedServices(house.postern.foundation.pool)
    assert await Purge(house.postern.foundation.unit_of_work, remains, purge_job).run(house.shop.id, trio.lowlevel.checkpoint)
    assert await house.listed("logins-by-service") == expected
    await house.count()
    assert await house.listed("logins-by-service") == expected


async def test_counts_outlive_their_rows(house: AnalyticsScene) -> None:
    house.signs_in(4, to=house.shop)
    house.people.change("delete from login_events")
    assert await house.days() == {"2026-03-10": 4}
    await house.count()
    assert await house.days() == {"2026-03-10": 4}


async def test_a_sign_in_that_commits_late_is_counted_once(house: AnalyticsScene, database_url: str) -> None:
    """The sign-in began in an hour that has been counted meanwhile, like all later hours."""
    values = (NOON, house.guest.user, house.acme.id, house.shop.id, "password", True, NOON, 1)
    with psycopg.connect(database_url) as late:
        late.execute(_ADD.encode(), values)
        house.signs_in(2, to=house.shop)
        house.signs_in(3, to=house.shop, at=NOON + timedelta(days=5))
        assert await house.count() == 5
        assert await house.days() == {"2026-03-10": 2, "2026-03-15": 3}
        late.commit()
    assert await house.days() == {"2026-03-10": 3, "2026-03-15": 3}
    assert await house.count() == 1
    assert await house.days() == {"2026-03-10": 3, "2026-03-15": 3}
    with psycopg.connect(database_url) as undone:
        undone.execute(_ADD.encode(), values)
        undone.rollback()
    assert await house.count() == 0
    assert await house.days() == {"2026-03-10": 3, "2026-03-15": 3}


def _write(house: AnalyticsScene, database_url: str, number: int) -> None:
    with psycopg.connect(database_url) as connection:
        for turn in range(40):
            at = NOON - timedelta(hours=(number * turn) % 50)
            service = (house.shop, house.app)[turn % 2].id
            connection.execute(_ADD.encode(), (at, house.guest.user, house.acme.id, service, "password", True, at, 1 + turn % 3))
            if turn % 5 == 4:
                connection.rollback()
            elif turn % 2:
                connection.commit()
        connection.commit()


async def test_sums_equal_the_rows_while_many_write_and_several_count(house: AnalyticsScene, database_url: str) -> None:
    """Writers commit in any order or roll back, counters run all the time, and readers must never see a wrong sum. A right sum only grows,
    up to the number of rows.
    """
    working = writers = 6
    sums: list[int] = []

    async def write(number: int) -> None:
        nonlocal working
        await trio.to_thread.run_sync(_write, house, database_url, number)
        working -= 1

    async def count() -> None:
        counter = PostgresLoginCounter(house.postern.foundation.pool)
        while working:
            await counter.count(7)

    async def read() -> None:
        while working:
            sums.append(sum((await house.days()).values()))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(writers):
                nursery.start_soon(write, number)
            for _ in range(3):
                nursery.start_soon(count)
            nursery.start_soon(read)
    rows = house.people.rows("select (created_at at time zone 'UTC')::date as day, count(*) as logins from login_events group by 1")
    expected = {row["day"].isoformat(): row["logins"] for row in rows}
    assert await house.days() == expected
    await house.count()
    assert await house.days() == expected
    assert sums == sorted(sums)
    assert house.people.rows("select from uncounted_logins") == []
    (altogether,) = house.people.rows("select sum(logins) as logins from platform_login_counts")
    assert altogether["logins"] == sum(expected.values())
    services = {one["service_id"]: one["count"] for one in await house.listed("logins-by-service")}
    by_row = house.people.rows("select service_id::text as id, count(*) as logins from login_events group by 1")
    assert services == {row["id"]: row["logins"] for row in by_row}


async def test_the_counter_counts_by_itself(house: AnalyticsScene) -> None:
    house.signs_in(3, to=house.shop)
    counter = login_counter(PostgresLoginCounter(house.postern.foundation.pool), spread=lambda: 0.0, interval=0.01)
    async with trio.open_nursery() as nursery:
        await nursery.start(counter.run)
        with trio.fail_after(PATIENCE):
            while house.people.rows("select from uncounted_logins"):
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert await house.days() == {"2026-03-10": 3}


async def test_the_sign_ins_of_an_organization_that_is_being_deleted_count_for_the_platform_alone(house: AnalyticsScene) -> None:
    house.signs_in(2, to=house.shop, at=house.postern.foundation.clock.now())
    house.people.change("update all_organizations set deleted_at = now() where id = %s", house.acme.id)
    assert await house.count() == 2
    assert house.people.rows("select from login_counts") == []
    answer = (await house.request("GET", "/api/platform/analytics/overview", by=house.governor)).ok()
    assert answer["logins_today"] == 2


async def test_platform_owners_see_the_installation_in_figures(house: AnalyticsScene) -> None:
    now = house.postern.foundation.clock.now()
    today = datetime.combine(now.date(), datetime.min.time(), UTC)
    for days in (0, 6, 7, 29, 30):
        house.signs_in(at=today - timedelta(days=days))
    house.tenants.add("waiting", status="pending")
    path = "/api/platform/analytics/overview"
    expected = {
        "total_users": len(house.people.rows("select from users")),
        "mfa_enabled_users": 0,
        "total_organizations": 3,
        "organizations_by_status": {"active": 2, "pending": 1},
        "total_services": 3,
        "logins_today": 1,
        "logins_7d": 2,
        "logins_30d": 4,
    }
    assert (await house.request("GET", path, by=house.governor)).ok() == expected
    assert house.log.events("request")[-1]["db_round_trips"] <= 2
    await house.count()
    assert (await house.request("GET", path, by=house.governor)).ok() == expected
    assert (await house.request("GET", path)).status == 403
