"""Sessions over HTTP: refreshed, distinguished from stolen ones, and ended."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import trio

from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person
from tests.http.signing_in import LOGOUT, PASSWORD, REFRESH, SAFARI, Browser, unlimited
from tests.meanwhile import meanwhile


@pytest.fixture
def browser(postern: Postern) -> Browser:
    return Browser(unlimited(postern))


@pytest.fixture
async def person(people: People) -> Person:
    return await people.with_password(PASSWORD)


async def profile(browser: Browser, token: str) -> int:
    return (await browser.client.get("/api/user", token=token)).status


async def test_a_refresh_token_is_exchanged_for_new_tokens(browser: Browser, person: Person) -> None:
    tokens = await browser.tokens(person)
    answer = await browser.refresh(tokens["refresh_token"])
    assert answer.status == 200
    fresh = answer.json()
    assert set(fresh) == {"access_token", "refresh_token", "expires_in", "token_type"}
    assert (fresh["token_type"], fresh["expires_in"]) == ("Bearer", 900)
    assert fresh["refresh_token"] != tokens["refresh_token"]
    # Both access tokens work until they expire: the session is the same.
    assert await profile(browser, fresh["access_token"]) == await profile(browser, tokens["access_token"]) == 200
    assert (await browser.refresh(fresh["refresh_token"])).status == 200


async def test_it_costs_two_round_trips(postern: Postern, person: Person, log: CapturedLog) -> None:
    browser = Browser(unlimited(postern, SETTINGS))
    token = (await browser.tokens(person))["refresh_token"]
    for _ in range(2):
        token = (await browser.refresh(token)).json()["refresh_token"]
    assert log.events("request")[-1]["db_round_trips"] <= 2


@pytest.mark.parametrize("with_cookies", [True, False])
async def test_a_client_that_lost_the_answer_gets_the_same_one(browser: Browser, person: Person, with_cookies: bool) -> None:
    tokens = await browser.tokens(person)
    if not with_cookies:
        browser.cookies = {}
    first, second = [(await browser.refresh(tokens["refresh_token"])).json() for _ in range(2)]
    assert first["refresh_token"] == second["refresh_token"]
    assert await profile(browser, second["access_token"]) == 200
    assert (await browser.refresh(second["refresh_token"])).status == 200


async def reused(browser: Browser, people: People, token: str) -> None:
    answer = await browser.refresh(token)
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    (entry,) = people.rows("select action, success from audit_log where action like 'security.refresh%%'")
    assert entry == {"action": "security.refresh_token.reused", "success": False}


async def test_an_old_token_that_returns_ends_the_session(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    fresh = (await browser.refresh(tokens["refresh_token"])).json()
    people.change("update refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null")
    await reused(browser, people, tokens["refresh_token"])
    for access in (tokens["access_token"], fresh["access_token"]):
        assert await profile(browser, access) == 401
    assert (await browser.refresh(fresh["refresh_token"])).status == 401


async def test_an_old_token_whose_session_ends_meanwhile_is_not_reported(
    browser: Browser, postern: Postern, people: People, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = await browser.tokens(person)
    assert (await browser.refresh(tokens["refresh_token"])).status == 200
    people.change("update refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null")
    end = "update sessions set revoked_at = now()"
    meanwhile(monkeypatch, postern.identity.sessions.refresh_tokens, "rotate", lambda: people.change(end))
    answer = await browser.refresh(tokens["refresh_token"])
    assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
    assert people.rows("select from audit_log where action = 'security.refresh_token.reused'") == []


@pytest.mark.parametrize("change", ["no cookies", "another device", "another agent"])
async def test_so_does_one_that_comes_from_elsewhere(browser: Browser, people: People, person: Person, change: str) -> None:
    other = Browser(browser.client, SAFARI if change == "another agent" else browser.agent)
    if change == "another device":
        await other.tokens(person)
    tokens = await browser.tokens(person)
    fresh = (await browser.refresh(tokens["refresh_token"])).json()
    await reused(other, people, tokens["refresh_token"])
    assert await profile(browser, fresh["access_token"]) == 401
    # The person's other sessions go on.
    assert (await browser.tokens(person))["access_token"]


async def test_of_fifty_at_once_one_rotates_and_the_others_get_the_same(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    answers: list[Received] = []

    async def present() -> None:
        answers.append(await browser.refresh(tokens["refresh_token"]))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(present)
    assert Counter(answer.status for answer in answers) == {200: 50}
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    assert people.rows("select count(*) as n from refresh_tokens") == [{"n": 2}]


async def test_of_fifty_from_as_many_devices_one_at_most_gets_anything(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    answers: list[Received] = []

    async def present(number: int) -> None:
        answers.append(await Browser(browser.client, f"agent {number}").refresh(tokens["refresh_token"]))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(present, number)
    assert Counter(answer.status for answer in answers) == {200: 1, 401: 49}
    assert people.rows("select count(*) as n from audit_log where action = 'security.refresh_token.reused'") == [{"n": 1}]
    assert people.rows("select count(*) as n from sessions where revoked_at is null") == [{"n": 0}]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"refresh_token": ""}, 400),
        ({"refresh_token": "x" * 1001}, 400),
        ({"refresh_token": 7}, 400),
        ({"refresh_token": None}, 400),
        ({"refresh_token": "x\x00"}, 400),
        ({"refresh_token": "x" * 1000}, 401),
        ({"refresh_token": "no such token"}, 401),
        ({"refresh_token": "\u202e\u00e9"}, 401),
    ],
)
async def test_what_is_no_refresh_token_is_refused(browser: Browser, body: Any, status: int) -> None:
    answer = await browser.post(REFRESH, body)
    assert answer.status == status
    if status == 400:
        assert "refresh_token" in answer.json()["error"]


async def test_an_access_token_is_no_refresh_token_and_the_other_way_round(browser: Browser, person: Person) -> None:
    tokens = await browser.tokens(person)
    assert (await browser.refresh(tokens["access_token"])).status == 401
    assert await profile(browser, tokens["refresh_token"]) == 401


@pytest.mark.parametrize(
    "change",
    [
        "update users set deactivated_at = now() where id = %s",
        "delete from users where id = %s",
        "update sessions set revoked_at = now() where user_id = %s",
        "update sessions set expires_at = now() where user_id = %s",
        "update sessions set ends_at = now() where user_id = %s",
    ],
)
async def test_what_has_ended_is_not_carried_on(browser: Browser, people: People, person: Person, change: str) -> None:
    tokens = await browser.tokens(person)
    people.change(change, person.user)
    assert (await browser.refresh(tokens["refresh_token"])).status == 401
    assert await profile(browser, tokens["access_token"]) == 401


async def test_the_context_is_kept_and_its_organization_must_let_the_user_in(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    people.change(
        "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, 'acme', 'X', 'active', now(), now())",
        person.session,
    )
    people.change(
        "insert into memberships (id, org_id, user_id, role, created_at) values (%s, %s, %s, 'member', now())",
        person.session,
        person.session,
        person.user,
    )
    people.change("update sessions set organization_id = %s", person.session)
    fresh = (await browser.refresh(tokens["refresh_token"])).json()
    answer = await browser.client.get("/api/user", token=fresh["access_token"])
    assert (answer.json()["org"], answer.json()["service"]) == ("acme", "")
    # The earlier token was for the platform, but the session is no longer there.
    assert await profile(browser, tokens["access_token"]) == 401
    people.change("update organizations set status = 'suspended'")
    for refused in (await browser.refresh(fresh["refresh_token"]), await browser.client.get("/api/user", token=fresh["access_token"])):
        assert (refused.status, refused.error_code) == (403, "ORGANIZATION_NOT_ACTIVE")
    people.change("delete from memberships")
    for refused in (await browser.refresh(fresh["refresh_token"]), await browser.client.get("/api/user", token=fresh["access_token"])):
        assert (refused.status, refused.error_code) == (403, "FORBIDDEN")
    assert (await browser.post(LOGOUT, token=fresh["access_token"])).status == 200


async def test_signing_out_ends_the_session_at_once_and_may_be_repeated(browser: Browser, people: People, person: Person) -> None:
    tokens, others = await browser.tokens(person), await browser.tokens(person)
    for _ in range(2):
        answer = await browser.post(LOGOUT, token=tokens["access_token"])
        assert (answer.status, set(answer.json())) == (200, {"message"})
    assert await profile(browser, tokens["access_token"]) == 401
    assert (await browser.refresh(tokens["refresh_token"])).status == 401
    assert await profile(browser, others["access_token"]) == 200
    assert people.rows("select name from events where name = 'user.logout'") == [{"name": "user.logout"}]


async def test_signing_out_needs_a_token_of_ours(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    assert (await browser.post(LOGOUT)).error_code == "UNAUTHORIZED"
    assert (await browser.post(LOGOUT, token="rubbish")).error_code == "JWT_ERROR"
    # Postern never signs a token that names another person's session; such a token would end nothing.
    session = people.rows("select id from sessions")[0]["id"]
    strange = await people.token(people.add(), sid=str(session))
    assert (await browser.post(LOGOUT, token=strange)).status == 200
    assert await profile(browser, tokens["access_token"]) == 200


async def test_other_sessions_can_be_ended_at_once(browser: Browser, people: People, person: Person, postern: Postern) -> None:
    kept, *others = [await browser.tokens(person) for _ in range(3)]
    caller = await postern.tenancy.callers.resolve(kept["access_token"])
    for ended in (2, 0):
        assert await postern.identity.sessions.sign_out_others(caller.user, caller.session, Actor(caller.user)) == ended
    assert await profile(browser, kept["access_token"]) == 200
    assert [await profile(browser, other["access_token"]) for other in others] == [401, 401]
    assert len(people.rows("select id from audit_log where action = 'security.sessions.revoked'")) == 1


async def test_no_stored_row_opens_anything(browser: Browser, people: People, person: Person) -> None:
    """A reader of the database finds no refresh token there, neither the current one nor its successor."""
    tokens = await browser.tokens(person)
    fresh = (await browser.refresh(tokens["refresh_token"])).json()
    following = (await browser.refresh(fresh["refresh_token"])).json()
    known = [one["refresh_token"] for one in (tokens, fresh, following)]
    for (table,) in (row.values() for row in people.rows("select tablename from pg_tables where schemaname = 'public'")):
        dump = repr(people.rows(f"select {table}::text from {table}"))
        assert not [token for token in known if token in dump or token.encode().hex() in dump], table


async def test_while_the_database_is_away_nothing_is_carried_on_and_nothing_lost(lonely_client: Client) -> None:
    answer = await lonely_client.post(REFRESH, {"refresh_token": "x" * 43})
    assert answer.status == 503
    assert answer.header("retry-after")


async def test_a_token_lives_no_longer_than_its_session(browser: Browser, people: People, person: Person) -> None:
    tokens = await browser.tokens(person)
    people.change("update sessions set ends_at = now() + interval '100 seconds'")
    fresh = (await browser.refresh(tokens["refresh_token"])).json()
    assert fresh["expires_in"] in range(95, 101)
    (row,) = people.rows("select expires_at, ends_at, last_seen_at from sessions")
    assert row["expires_at"] == row["ends_at"]
    assert row["expires_at"] - row["last_seen_at"] < timedelta(seconds=101)
