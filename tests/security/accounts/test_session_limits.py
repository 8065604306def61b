"""Attacks on what organizations and services say about sessions: many sign-ins at once, rules over people who are merely listed, and tokens
that come in the moment of the end.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import psycopg
import pytest
import trio

from actors.job_worker import JobRefused, Workplace
from actors.mailers import displaced_session_teller
from core.domain.identity.session_limits import DISPLACED_JOB, Displacement, NoDisplacement
from core.domain.jobs import Job
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.relying import Application, Relying
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import LOGOUT, PASSWORD, REFRESH, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

CROWD: Final = 50
MOST: Final = 3


class LimitScene(Relying):
    """Grace can sign in, and belongs to acme by her own act."""

    async def move_in(self) -> None:
        self.grace = await self.people.with_password(PASSWORD, "grace@example.org")

    def say(self, application: Application | None = None, **limits: int | None) -> None:
        """What acme, or one of its applications, says."""
        table, place = ("all_organizations", self.acme.id) if application is None else ("all_services", application.service.id)
        for column, number in limits.items():
            self.people.change(f"update {table} set {column} = %s where id = %s", number, place)

    def open_sessions(self, person: Person, service: Application | None = None) -> int:
        (row,) = self.people.rows(
            "select count(*) as n from sessions where user_id = %s and service_id is not distinct from %s and revoked_at is null",
            person.user,
            None if service is None else service.service.id,
        )
        return int(row["n"])

    async def sign_in(self) -> dict[str, Any]:
        return {**(await Browser(self.client).tokens(self.grace))}

    async def enter(self, tokens: dict[str, Any], slug: str) -> dict[str, Any]:
        answer = await self.client.post(f"/api/organizations/{slug}/select", token=tokens["access_token"])
        assert answer.status == 200
        return {**answer.json()}

    async def refresh_own(self, tokens: dict[str, Any]) -> int:
        return (await self.client.post(REFRESH, {"refresh_token": tokens["refresh_token"]})).status

    async def tell(self) -> list[Job]:
        """Does the jobs of ended sessions, as the actor does. Each twice, as after a crash."""
        jobs = list(await self.postern.foundation.jobs.claim([DISPLACED_JOB], 100, timedelta(minutes=1)))
        for job in jobs:
            assert await self.postern.identity.displaced_sessions.tell(Displacement.of_job(job.payload))
            await self.postern.foundation.jobs.complete(job)
        return jobs


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> LimitScene:
    scene = LimitScene(postern, people, unlimited(postern), log)
    await scene.move_in()
    return scene


async def crowd(ask: Callable[[int], Awaitable[Received]]) -> list[Received]:
    return list(await all_at_once(*(partial(ask, number) for number in range(CROWD))))


async def test_fifty_codes_at_once_open_no_more_sessions_than_the_application_says(scene: LimitScene) -> None:
    scene.say(scene.shop, most_sessions=MOST)
    codes = [await scene.code(scene.shop, scene.people.session_of(scene.ada)) for _ in range(CROWD)]
    answers = await crowd(lambda number: scene.redeem(scene.shop, codes[number]))
    assert {answer.status for answer in answers} == {200}
    assert scene.open_sessions(scene.ada, scene.shop) == MOST
    living = [answer.json() for answer in answers if (await scene.introspect(scene.shop, answer.json()["access_token"]))["active"]]
    assert len(living) == MOST
    # The browsers go on: the application says nothing about them.
    assert scene.open_sessions(scene.ada) == CROWD + 1


async def test_fifty_sign_ins_at_once_leave_no_more_than_the_own_organization_says(scene: LimitScene) -> None:
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(most_sessions=MOST)
    answers = await crowd(lambda _: Browser(scene.client).login(scene.grace))
    assert {answer.status for answer in answers} <= {200, 429, 503}
    assert len([answer for answer in answers if answer.status == 200]) > MOST
    assert scene.open_sessions(scene.grace) == MOST


async def test_sign_ins_that_come_at_once_wait_for_each_other_and_see_each_other(scene: LimitScene, database_url: str) -> None:
    """A sign-in only shares the lock on the account, so without the wait each would count without the others."""
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(most_sessions=1)
    with psycopg.connect(database_url) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended(%s::text, 34))", [str(scene.grace.user)])
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(scene.sign_in)
            await scene.people.all_wait(3)
            other.rollback()
    assert scene.open_sessions(scene.grace) == 1


async def test_an_organization_that_lists_somebody_ends_nothing_outside_itself(scene: LimitScene) -> None:
    scene.tenants.join(scene.grace, scene.acme, listed=True)
    scene.say(most_sessions=1, session_idle_minutes=5)
    signed_in = [await scene.sign_in() for _ in range(3)]
    scene.people.change("update sessions set last_seen_at = last_seen_at - interval '1 day' where organization_id is null")
    assert [await scene.refresh_own(tokens) for tokens in signed_in] == [200, 200, 200]
    # In its services the number counts for everybody.
    browsers = [scene.people.session_of(scene.grace) for _ in range(2)]
    first, second = [await scene.signed_in(scene.shop, browser) for browser in browsers]
    assert not (await scene.introspect(scene.shop, first["access_token"]))["active"]
    assert (await scene.introspect(scene.shop, second["access_token"]))["active"]


async def test_an_organization_that_lists_somebody_ends_nothing_that_was_opened_from_a_session_in_it(scene: LimitScene) -> None:
    """A client of ours goes from one organization to the next. The oldest in acme goes, and what was opened from it elsewhere hangs on the
    sign-in from then on.
    """
    scene.tenants.join(scene.grace, scene.acme, listed=True)
    scene.tenants.join(scene.grace, scene.globex)
    scene.say(most_sessions=1)
    first = await scene.sign_in()
    in_acme = await scene.enter(first, "acme")
    again = await scene.enter(await scene.enter(in_acme, "acme"), "globex")
    elsewhere = await scene.enter(in_acme, "globex")
    await scene.enter(await scene.sign_in(), "acme")
    assert await scene.refresh_own(in_acme) == 401
    assert [await scene.refresh_own(tokens) for tokens in (elsewhere, again)] == [200, 200]
    # They still end with the sign-in.
    await scene.client.post(LOGOUT, token=first["access_token"])
    assert [await scene.refresh_own(tokens) for tokens in (elsewhere, again)] == [401, 401]


async def test_a_suspended_organization_and_another_persons_bind_nobody(scene: LimitScene) -> None:
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(most_sessions=1)
    scene.people.change("update all_organizations set status = 'suspended', suspended_at = now() where id = %s", scene.acme.id)
    assert [await scene.refresh_own(tokens) for tokens in [await scene.sign_in() for _ in range(2)]] == [200, 200]


async def test_the_oldest_goes_and_everything_with_it_and_person_log_and_application_are_told(scene: LimitScene) -> None:
    scene.people.change(
        "update all_services set backchannel_logout_uri = 'https://shop.example/out' where id = %s",
        scene.shop.service.id,
    )
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(most_sessions=1)
    first = await scene.sign_in()
    (row,) = scene.people.rows("select id from sessions where user_id = %s", scene.grace.user)
    opened = await scene.signed_in(scene.shop, replace(scene.grace, session=row["id"]))
    second = await scene.sign_in()
    assert [await scene.refresh_own(tokens) for tokens in (first, second)] == [401, 200]
    assert not (await scene.introspect(scene.shop, opened["access_token"]))["active"]
    postbox = Postbox(scene.postern)
    await postbox.empty()
    (job,) = await scene.tell()
    (mail,) = await postbox.empty()
    assert (mail.to, mail.subject) == ("grace@example.org", "You were signed out of a session")
    assert "your oldest session was signed out" in " ".join(mail.text.split())
    assert "lock-account" in mail.text
    (entry,) = scene.audited("security.sessions.revoked")
    assert entry["details"] == {"sessions": 2, "because": "most_sessions", "session_id": str(job.payload["by"])}
    assert (entry["organization_id"], entry["target_id"]) == (None, str(scene.grace.user))
    assert len(scene.people.rows("select from logout_notices where service_id = %s", scene.shop.service.id)) == 1


async def test_whoever_signs_in_every_minute_gets_three_mails_and_the_log_has_each_time(scene: LimitScene) -> None:
    scene.say(scene.shop, most_sessions=1)
    for _ in range(6):
        await scene.signed_in(scene.shop, scene.people.session_of(scene.ada))
    assert len(await scene.tell()) == 5
    mails = await Postbox(scene.postern).empty()
    assert len(mails) == 3
    assert "“Shop” limits" in mails[0].text or "“shop” limits" in mails[0].text
    assert [entry["organization_id"] for entry in scene.audited("security.sessions.revoked")] == [scene.acme.id] * 5


async def test_sessions_from_one_sign_in_count_once(scene: LimitScene) -> None:
    """An application that asks again in the same browser ends nothing elsewhere."""
    scene.say(most_sessions=2)
    elsewhere = await scene.signed_in(scene.shop, scene.people.session_of(scene.ada))
    here = scene.people.session_of(scene.ada)
    again = [await scene.signed_in(application, here) for application in (scene.shop, scene.shop, scene.page)]
    for tokens in (elsewhere, *again[:2]):
        assert (await scene.introspect(scene.shop, tokens["access_token"]))["active"]


async def test_the_numbers_of_organization_and_application_both_count(scene: LimitScene) -> None:
    scene.say(most_sessions=3)
    scene.say(scene.shop, most_sessions=1)
    browsers = [scene.people.session_of(scene.ada) for _ in range(4)]
    for browser in browsers[:2]:
        await scene.signed_in(scene.phone, browser)
    for browser in browsers[2:]:
        await scene.signed_in(scene.shop, browser)
    # The second sign-in to the shop ended the first there, and so the organization has room.
    assert (scene.open_sessions(scene.ada, scene.phone), scene.open_sessions(scene.ada, scene.shop)) == (1, 1)


@pytest.mark.parametrize("of_service", [False, True])
@pytest.mark.parametrize(
    ("limit", "moment"), [("idle", "last_seen_at = now() - interval '6 minutes'"), ("hours", "proved_at = now() - interval '61 minutes'")]
)
async def test_a_life_that_is_over_closes_every_door(scene: LimitScene, limit: str, moment: str, *, of_service: bool) -> None:
    tokens = await scene.signed_in(scene.shop)
    untouched = await scene.signed_in(scene.theirs)
    column = "session_idle_minutes" if limit == "idle" else "session_lifetime_hours" if of_service else "session_hours"
    scene.say(scene.shop if of_service else None, **{column: 5 if limit == "idle" else 1})
    assert (await scene.introspect(scene.shop, tokens["access_token"]))["active"]
    scene.people.change(f"update sessions set {moment} where service_id is not null")
    assert not (await scene.introspect(scene.shop, tokens["access_token"]))["active"]
    assert (await scene.userinfo(tokens["access_token"])).status == 401
    assert (await scene.client.get("/api/user", token=tokens["access_token"])).status == 401
    assert (await scene.refresh(scene.shop, tokens["refresh_token"])).status == 400
    # Another organization's application says nothing.
    assert (await scene.introspect(scene.theirs, untouched["access_token"]))["active"]
    # Who lengthens the life again lets the session go on, as for every rule.
    scene.say(scene.shop if of_service else None, **{column: None})
    assert (await scene.refresh(scene.shop, tokens["refresh_token"])).status == 200


async def test_an_own_session_rests_as_long_as_the_own_organization_says_and_takes_its_applications_along(scene: LimitScene) -> None:
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(session_idle_minutes=10)
    tokens = await scene.sign_in()
    (own,) = scene.people.rows(
        "select id, minutes_idle, expires_at - created_at as lasts, expires_day = (expires_at at time zone 'UTC')::date as is_its_day"
        " from sessions where user_id = %s",
        scene.grace.user,
    )
    assert (own["minutes_idle"], own["lasts"], own["is_its_day"]) == (10, timedelta(minutes=10), True)
    # An application of another organization rests no longer than the browser that it came from.
    opened = await scene.signed_in(scene.theirs, replace(scene.grace, session=own["id"]))
    assert (await scene.refresh(scene.theirs, opened["refresh_token"])).status == 200
    (theirs,) = scene.people.rows("select minutes_idle from sessions where parent_id = %s", own["id"])
    assert theirs["minutes_idle"] == 10
    (pair,) = scene.people.rows(
        "select children.expires_at <= parents.expires_at as ends_with_it from sessions as children"
        " join sessions as parents on parents.id = children.parent_id where parents.id = %s",
        own["id"],
    )
    assert pair["ends_with_it"]
    await scene.postern.identity.presence._marks.mark_seen({own["id"]: scene.postern.foundation.clock.now() + timedelta(minutes=1)})
    assert await scene.refresh_own(tokens) == 200
    scene.people.change("update sessions set expires_at = now() - interval '1 second' where id = %s", own["id"])
    assert await scene.refresh_own(tokens) == 401


async def test_a_refresh_in_the_moment_of_the_end_gets_nothing(scene: LimitScene) -> None:
    """The refresh waits for the sign-in that ends its session, and then finds it ended: whoever was first, one session is open."""
    scene.say(scene.shop, most_sessions=1)
    first = await scene.signed_in(scene.shop, scene.people.session_of(scene.ada))
    code = await scene.code(scene.shop, scene.people.session_of(scene.ada))
    answers = await all_at_once(partial(scene.refresh, scene.shop, first["refresh_token"]), partial(scene.redeem, scene.shop, code))
    got = [answer.json() for answer in answers if answer.status == 200]
    active = [(await scene.introspect(scene.shop, tokens["access_token"]))["active"] for tokens in got]
    assert active.count(True) == 1
    assert (await scene.refresh(scene.shop, first["refresh_token"])).status == 400
    assert scene.open_sessions(scene.ada, scene.shop) == 1


async def test_an_exchange_counts_for_nobody_and_an_act_in_anothers_name_displaces_nobody(scene: LimitScene) -> None:
    scene.tenants.join(scene.grace, scene.acme)
    scene.say(most_sessions=1)
    tokens = await scene.sign_in()
    boss = scene.people.add("boss@example.org", platform_owner=True)
    scene.people.change("update sessions set second_factor_at = now() where id = %s", boss.session)
    await scene.request("POST", f"/api/platform/users/{scene.grace.user}/impersonate", {"reason": "asked"}, by=boss)
    assert await scene.refresh_own(tokens) == 200


async def test_the_person_may_be_gone_and_a_payload_without_sessions_is_refused(scene: LimitScene, postern: Postern) -> None:
    scene.say(scene.shop, most_sessions=1)
    for _ in range(2):
        await scene.signed_in(scene.shop, scene.people.session_of(scene.ada))
    (job,) = await postern.foundation.jobs.claim([DISPLACED_JOB], 1, timedelta(minutes=1))
    foundation = postern.foundation
    worker = displaced_session_teller(
        postern.identity.displaced_sessions,
        Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, foundation.secrets.spread, None),
    )
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)
    await worker._tasks[DISPLACED_JOB].handle(job)
    assert await Postbox(postern).empty() == []
    scene.people.change("delete from users where id = %s", scene.ada.user)
    assert not await postern.identity.displaced_sessions.tell(Displacement.of_job(job.payload))
    with pytest.raises(NoDisplacement):
        Displacement.of_job({"by": None})
    with pytest.raises(JobRefused):
        await worker._tasks[DISPLACED_JOB].handle(replace(job, payload={}))
