"""Counted sign-ins: exact at any moment, in any order of commits, and kept after their rows and services are deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
import trio

from actors.sweepers import login_counter
from adapters.postgres.platform.analytics import PostgresLoginCounter
from adapters.postgres.upkeep.purging import PostgresDeletedServices
from core.domain.platform.analytics import PAGE
from core.domain.services.services import purge_job
from core.usecases.jobs import Purge
from core.usecases.platform import analytics
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
def scene(postern: Postern, people: People, log: CapturedLog) -> AnalyticsScene:
    return AnalyticsScene(postern, people, unlimited(postern), log)


async def test_sign_ins_are_told_by_day_service_and_provider(scene: AnalyticsScene) -> None:
    scene.signs_in(3, to=scene.shop)
    scene.signs_in(2, to=scene.app, provider="codehost", at=NOON + timedelta(days=1))
    scene.signs_in(of=scene.acme, at=NOON + timedelta(days=1))
    # These do not count: a failure, and sign-ins to another organization, to the platform, and on another day.
    scene.signs_in(5, to=scene.shop, success=False)
    scene.signs_in(5, to=scene.theirs, of=scene.globex)
    scene.signs_in(5)
    scene.signs_in(5, to=scene.shop, at=datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC))
    scene.signs_in(5, to=scene.shop, at=datetime(2026, 4, 1, tzinfo=UTC))
    for counted in (False, True):
        if counted:
            assert await scene.count() == 3 + 2 + 1 + 5 + 5 + 5 + 5
        assert await scene.listed("login-trends") == [{"date": "2026-03-10", "count": 3}, {"date": "2026-03-11", "count": 3}]
        assert await scene.listed("logins-by-service") == [
            {"service_id": str(scene.shop.id), "service_name": "Shop", "count": 3},
            {"service_id": str(scene.app.id), "service_name": "App", "count": 2},
        ]
        assert await scene.listed("logins-by-provider") == [{"provider": "password", "count": 4}, {"provider": "codehost", "count": 2}]
    assert await scene.count() == 0


async def test_days_are_those_of_utc_and_both_ends_count(scene: AnalyticsScene) -> None:
    for at in ("2026-03-10T00:00:00Z", "2026-03-10T23:59:59.999999Z", "2026-03-11T00:30:00+02:00", "2026-03-10T23:30:00-02:00"):
        scene.signs_in(to=scene.shop, at=datetime.fromisoformat(at))
    await scene.count()
    assert await scene.days() == {"2026-03-10": 3, "2026-03-11": 1}
    assert await scene.listed("login-trends", "?start_date=2026-03-11&end_date=2026-03-11") == [{"date": "2026-03-11", "count": 1}]
    assert await scene.listed("login-trends", "?start_date=0001-01-01&end_date=9999-12-31") != []


async def test_thirty_days_unless_somebody_says_otherwise(scene: AnalyticsScene) -> None:
    now = scene.postern.foundation.clock.now()
    for days in (0, 30, 31):
        scene.signs_in(to=scene.shop, at=now - timedelta(days=days))
    expected = [{"date": (now - timedelta(days=days)).date().isoformat(), "count": 1} for days in (30, 0)]
    assert await scene.listed("login-trends", "") == expected
    first = (now - timedelta(days=31)).date().isoformat()
    assert len(await scene.listed("login-trends", f"?start_date={first}")) == 3
    # The thirty days before another last day.
    assert await scene.listed("login-trends", f"?end_date={first}") == [{"date": first, "count": 1}]


@pytest.mark.parametrize(
    "query",
    [
        *("?start_date=yesterday", "?start_date=2026-3-1", "?start_date=20260301", "?end_date=2026-02-30", "?end_date=2026-W10-1"),
        *("?start_date=", "?start_date=2026-03-02&end_date=2026-03-01", "?end_date=2026-03-01T00:00:00Z"),
    ],
)
async def test_what_is_no_day_is_refused(scene: AnalyticsScene, query: str) -> None:
    for which in ("login-trends", "logins-by-service", "logins-by-provider"):
        answer = await scene.ask(which, query)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")


async def test_recent_sign_ins_are_the_newest_as_many_as_wanted(scene: AnalyticsScene) -> None:
    now = scene.postern.foundation.clock.now()
    for minutes in range(12):
        scene.signs_in(to=scene.shop, at=now - timedelta(minutes=minutes))
    scene.signs_in(to=scene.shop, success=False, at=now)
    scene.signs_in(to=scene.theirs, of=scene.globex, at=now)
    recent = await scene.listed("recent-logins", "")
    assert len(recent) == 10
    assert [one["created_at"] for one in recent] == sorted((one["created_at"] for one in recent), reverse=True)
    assert recent[0] == {
        "id": recent[0]["id"],
        "user_id": str(scene.guest.user),
        "service_id": str(scene.shop.id),
        "provider": "password",
        "created_at": recent[0]["created_at"],
    }
    assert len(await scene.listed("recent-logins", "?limit=3")) == 3
    scene.signs_in(2 * PAGE, to=scene.shop)
    everything = await scene.listed("recent-logins", "?limit=1000000000")
    assert len({one["id"] for one in everything}) == len(everything) == 2 * PAGE + 12
    for query in ("?limit=0", "?limit=-1", "?limit=many"):
        assert (await scene.ask("recent-logins", query)).status == 400


async def test_members_alone_may_look(scene: AnalyticsScene) -> None:
    stranger = scene.resident(scene.globex, "owner")
    for which in ("login-trends", "logins-by-service", "logins-by-provider", "recent-logins"):
        assert (await scene.ask(which)).status == 200
        assert (await scene.ask(which, by=stranger)).status == 403
        assert (await scene.ask(which, of="nowhere")).status == 404
        assert (await scene.client.get(f"/api/organizations/acme/analytics/{which}")).status == 401
        assert scene.log.events("request")[-2]["db_round_trips"] <= 2
    scene.people.change("update all_organizations set status = 'suspended' where id = %s", scene.acme.id)
    assert (await scene.ask("login-trends")).error_code == "ORGANIZATION_NOT_ACTIVE"


async def test_a_real_sign_in_is_counted_with_its_commit(scene: AnalyticsScene) -> None:
    person = await scene.people.with_password(PASSWORD)
    await Browser(scene.client).tokens(person, org_slug="acme", service_slug="shop")
    today = scene.postern.foundation.clock.now().date().isoformat()
    assert await scene.listed("login-trends", "") == [{"date": today, "count": 1}]
    assert (await Browser(scene.client).login(person, "wrong", org_slug="acme", service_slug="shop")).status == 401
    await scene.count()
    assert await scene.listed("login-trends", "") == [{"date": today, "count": 1}]


async def test_a_deleted_service_keeps_its_counts_under_its_last_name(scene: AnalyticsScene) -> None:
    scene.signs_in(4, to=scene.shop)
    await scene.count()
    scene.signs_in(1, to=scene.shop)
    path = "/api/organizations/acme/services/shop"
    (await scene.request("PATCH", path, {"name": "The last name"}, by=scene.owner)).ok()
    assert (await scene.request("DELETE", path, by=scene.owner)).status == 204
    expected = [{"service_id": str(scene.shop.id), "service_name": "The last name", "count": 5}]
    assert await scene.listed("logins-by-service") == expected
    remains = PostgresDeletedServices(scene.postern.foundation.pool)
    assert await Purge(scene.postern.foundation.unit_of_work, remains, purge_job).run(scene.shop.id, trio.lowlevel.checkpoint)
    assert await scene.listed("logins-by-service") == expected
    await scene.count()
    assert await scene.listed("logins-by-service") == expected


async def test_counts_outlive_their_rows(scene: AnalyticsScene) -> None:
    scene.signs_in(4, to=scene.shop)
    scene.people.change("delete from login_events")
    assert await scene.days() == {"2026-03-10": 4}
    await scene.count()
    assert await scene.days() == {"2026-03-10": 4}


async def test_a_sign_in_that_commits_late_is_counted_once(scene: AnalyticsScene, database_url: str) -> None:
    """The sign-in began in an hour that has been counted meanwhile, like all later hours."""
    values = (NOON, scene.guest.user, scene.acme.id, scene.shop.id, "password", True, NOON, 1)
    with psycopg.connect(database_url) as late:
        late.execute(_ADD.encode(), values)
        scene.signs_in(2, to=scene.shop)
        scene.signs_in(3, to=scene.shop, at=NOON + timedelta(days=5))
        assert await scene.count() == 5
        assert await scene.days() == {"2026-03-10": 2, "2026-03-15": 3}
        late.commit()
    assert await scene.days() == {"2026-03-10": 3, "2026-03-15": 3}
    assert await scene.count() == 1
    assert await scene.days() == {"2026-03-10": 3, "2026-03-15": 3}
    with psycopg.connect(database_url) as undone:
        undone.execute(_ADD.encode(), values)
        undone.rollback()
    assert await scene.count() == 0
    assert await scene.days() == {"2026-03-10": 3, "2026-03-15": 3}


def _write(scene: AnalyticsScene, database_url: str, number: int) -> None:
    with psycopg.connect(database_url) as connection:
        for turn in range(40):
            at = NOON - timedelta(hours=(number * turn) % 50)
            service = (scene.shop, scene.app)[turn % 2].id
            connection.execute(_ADD.encode(), (at, scene.guest.user, scene.acme.id, service, "password", True, at, 1 + turn % 3))
            if turn % 5 == 4:
                connection.rollback()
            elif turn % 2:
                connection.commit()
        connection.commit()


async def test_sums_equal_the_rows_while_many_write_and_several_count(scene: AnalyticsScene, database_url: str) -> None:
    """Writers commit in any order or roll back, counters run all the time, and readers must never see a wrong sum. A right sum only grows,
    up to the number of rows.
    """
    working = writers = 6
    sums: list[int] = []

    async def write(number: int) -> None:
        nonlocal working
        await trio.to_thread.run_sync(_write, scene, database_url, number)
        working -= 1

    async def count() -> None:
        counter = PostgresLoginCounter(scene.postern.foundation.pool)
        while working:
            await counter.count(7)

    async def read() -> None:
        while working:
            sums.append(sum((await scene.days()).values()))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(writers):
                nursery.start_soon(write, number)
            for _ in range(3):
                nursery.start_soon(count)
            nursery.start_soon(read)
    rows = scene.people.rows("select (created_at at time zone 'UTC')::date as day, count(*) as logins from login_events group by 1")
    expected = {row["day"].isoformat(): row["logins"] for row in rows}
    assert await scene.days() == expected
    await scene.count()
    assert await scene.days() == expected
    assert sums == sorted(sums)
    assert scene.people.rows("select from uncounted_logins") == []
    (altogether,) = scene.people.rows("select sum(logins) as logins from platform_login_counts")
    assert altogether["logins"] == sum(expected.values())
    services = {one["service_id"]: one["count"] for one in await scene.listed("logins-by-service")}
    by_row = scene.people.rows("select service_id::text as id, count(*) as logins from login_events group by 1")
    assert services == {row["id"]: row["logins"] for row in by_row}


async def test_the_counter_counts_by_itself(scene: AnalyticsScene) -> None:
    scene.signs_in(3, to=scene.shop)
    counter = login_counter(PostgresLoginCounter(scene.postern.foundation.pool), spread=lambda: 0.0, interval=0.01)
    async with trio.open_nursery() as nursery:
        await nursery.start(counter.run)
        with trio.fail_after(PATIENCE):
            while scene.people.rows("select from uncounted_logins"):
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert await scene.days() == {"2026-03-10": 3}


async def test_the_sign_ins_of_an_organization_that_is_being_deleted_count_for_the_platform_alone(scene: AnalyticsScene) -> None:
    scene.signs_in(2, to=scene.shop, at=scene.postern.foundation.clock.now())
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", scene.acme.id)
    assert await scene.count() == 2
    assert scene.people.rows("select from login_counts") == []
    answer = (await scene.request("GET", "/api/platform/analytics/overview", by=scene.governor)).ok()
    assert answer["logins_today"] == 2


async def test_platform_owners_see_the_installation_in_figures(scene: AnalyticsScene) -> None:
    now = scene.postern.foundation.clock.now()
    today = datetime.combine(now.date(), datetime.min.time(), UTC)
    for days in (0, 6, 7, 29, 30):
        scene.signs_in(at=today - timedelta(days=days))
    scene.tenants.add("waiting", status="pending")
    path = "/api/platform/analytics/overview"
    expected = {
        "total_users": len(scene.people.rows("select from users")),
        "mfa_enabled_users": 0,
        "total_organizations": 3,
        "organizations_by_status": {"active": 2, "pending": 1},
        "total_services": 3,
        "logins_today": 1,
        "logins_7d": 2,
        "logins_30d": 4,
    }
    assert (await scene.request("GET", path, by=scene.governor)).ok() == expected
    assert scene.log.events("request")[-1]["db_round_trips"] <= 2
    await scene.count()
    assert (await scene.request("GET", path, by=scene.governor)).ok() == expected
    assert (await scene.request("GET", path)).status == 403


async def test_failures_are_told_by_day_of_the_organization_alone(scene: AnalyticsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    today = scene.postern.foundation.clock.now().replace(hour=0, minute=30)
    scene.signs_in(2, at=today, of=scene.acme, success=False)
    scene.signs_in(3, at=today, of=scene.acme)
    scene.signs_in(4, at=today - timedelta(days=3), of=scene.acme, success=False)
    scene.signs_in(7, at=today - timedelta(days=40), of=scene.acme, success=False)
    scene.signs_in(5, at=today, of=scene.globex, success=False)

    async def told() -> tuple[str, dict[str, int]]:
        answer = (await scene.ask("failed-logins")).json()
        return answer["since"], {one["date"]: one["count"] for one in answer["days"]}

    day, before = today.date(), today.date() - timedelta(days=3)
    assert await told() == ((day - timedelta(days=30)).isoformat(), {before.isoformat(): 4, day.isoformat(): 2})
    # Of the oldest day that was read, not all attempts may have been read.
    monkeypatch.setattr(analytics, "MOST_READ_FOR_FAILURES", 7)
    assert await told() == ((before + timedelta(days=1)).isoformat(), {day.isoformat(): 2})
