"""The page of an organization's sign-ins, their file, and the endpoint behind them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from core.domain.identity.login_events import LoginFailure
from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.http.console.organization.sign_ins import SIGN_IN_LOG, _outcome
from entrypoints.http.pages.kit import shipped_pages
from tests.http.client import refused
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.test_exports import lines
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, Browser
from tests.http.tenants import Tenant, UsedService

API = "/api/organizations/acme/sign-ins"


class Log:
    """Sign-ins of Acme, written as sign-ins write them."""

    def __init__(self, console: ConsoleScene) -> None:
        self.console = console
        self.shop = console.tenants.service(console.acme, "shop")
        self.mary = console.people.add("mary@acme.example")
        console.people.change("update users set name = 'Mary Shelley' where id = %s", self.mary.user)
        console.tenants.join(self.mary, console.acme)
        console.people.change("update memberships set own_since = now()")

    def add(
        self,
        person: Person,
        *,
        to: UsedService | None = None,
        of: Tenant | None = None,
        failure: LoginFailure | None = None,
        provider: str = "password",
        ago: timedelta = timedelta(),
    ) -> UUID:
        at = self.console.postern.foundation.clock.now() - ago
        event = UUID(int=(int(at.timestamp() * 1000) << 80) | (self.console.postern.foundation.ids.new().int & ((1 << 80) - 1)))
        self.console.people.change(
            "insert into login_events (id, user_id, organization_id, service_id, provider, success, reason, address, country, city,"
            " created_at) values (%s, %s, %s, %s, %s, %s, %s, '203.0.113.7', 'DE', 'Berlin', %s)",
            event,
            person.user,
            (of or self.console.acme).id,
            to and to.id,
            provider,
            failure is None,
            failure and failure.value,
            at,
        )
        return event

    async def listed(self, query: str = "", *, by: Person | None = None) -> Any:
        answer = await self.console.request("GET", f"{API}{query}", by=by or self.console.ada)
        assert answer.status == 200, answer.body
        return answer.json()


@pytest.fixture
def log_of(console: ConsoleScene) -> Log:
    return Log(console)


async def test_the_page_says_who_came_in_which_way_and_who_did_not_get_in(log_of: Log) -> None:
    console = log_of.console
    log_of.add(log_of.mary, to=log_of.shop)
    log_of.add(log_of.mary, to=log_of.shop, failure=LoginFailure.WRONG_PASSWORD, ago=timedelta(hours=1))
    tab = await console.at("/sign-ins")
    assert tab.status == 200
    for said in ("Mary Shelley", "mary@acme.example", "Shop", "Password", "Wrong password", "Signed in", "Berlin, DE", "203.0.113.7"):
        assert said in tab.page.text, said
    assert f"/ui/o/acme/people/users/{log_of.mary.user}" in tab.page.links
    assert "/ui/o/acme/applications/shop" in tab.page.links
    # The figures of thirty days stand below.
    assert "By application, last 30 days" in tab.page.text


async def test_filters_stand_in_the_address_and_choose(log_of: Log) -> None:
    console, other = log_of.console, log_of.console.tenants.service(log_of.console.acme, "board")
    right = log_of.add(log_of.mary, to=log_of.shop, provider="passkey", ago=timedelta(days=2))
    log_of.add(console.ada, to=other, failure=LoginFailure.WRONG_CODE)
    since = (datetime.now(UTC) - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    until = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    for query in (
        "person=Mary%40acme.example",
        f"person={log_of.mary.user}",
        f"service_id={log_of.shop.id}",
        "provider=passkey",
        "success=true",
        f"since={since}&until={until}",
    ):
        zoned = query.replace(since, f"{since}:00Z").replace(until, f"{until}:00Z")
        assert [one["id"] for one in (await log_of.listed(f"?{zoned}"))["sign_ins"]] == [str(right)], query
        tab = await console.at(f"/sign-ins?{query}")
        assert "Wrong code" not in tab.page.text
        assert "Mary Shelley" in tab.page.text
    assert "Wrong code" in (await console.at("/sign-ins?success=false")).page.text
    assert "No results" in (await console.at("/sign-ins?person=nobody%40acme.example")).page.text
    for wrong in ("since=2026-03-01T00:00:00Z&until=2026-03-01T00:00:00Z", "service_id=shop", "since=yesterday"):
        assert refused(await console.request("GET", f"{API}?{wrong}", by=console.ada)) == (400, "BAD_REQUEST"), wrong


async def test_older_pages_follow_and_the_file_has_all(log_of: Log) -> None:
    console = log_of.console
    events = [log_of.add(log_of.mary, to=log_of.shop, ago=timedelta(minutes=minutes)) for minutes in range(60)]
    tab = await console.at("/sign-ins")
    (older,) = [link for link in tab.page.links if "after=" in link]
    assert older == f"/ui/o/acme/sign-ins?after={events[24]}"
    assert "mary@acme.example" in (await tab.open(older)).page.text
    log_of.add(console.ada, to=log_of.shop, failure=LoginFailure.WRONG_PASSWORD)
    assert "/ui/o/acme/sign-ins/~export?success=true" in (await console.at("/sign-ins?success=true")).page.links
    file = (await console.at("/sign-ins/~export?success=true")).shown
    assert file.header("content-disposition") == 'attachment; filename="acme-sign_ins.csv"'
    head, *rows = lines(file.body)
    assert head[0] == "Person"
    assert len(rows) == 60
    assert {row[0] for row in rows} == {"Mary Shelley"}


async def test_an_application_shows_its_sign_ins_and_failures_by_way(log_of: Log) -> None:
    console, shop = log_of.console, log_of.shop
    assert b'class="chart"' not in (await console.at("/applications/shop")).shown.body
    for _ in range(3):
        log_of.add(log_of.mary, to=shop)
    log_of.add(log_of.mary, to=shop, failure=LoginFailure.WRONG_PASSWORD)
    log_of.add(log_of.mary, to=shop, provider="passkey", ago=timedelta(days=2))
    board = console.tenants.service(console.acme, "board")
    log_of.add(log_of.mary, to=board, provider="link")
    globex = console.tenants.add("globex")
    log_of.add(log_of.mary, to=shop, of=globex, provider="link")
    tab = await console.at("/applications/shop")
    text = tab.page.text
    for said in ("Sign-ins by method", "Password: 3 · 1", "Passkey: 1", "Password 3 1", "Passkey 1 0"):
        assert said in text, said
    assert "link: " not in text.casefold()
    assert tab.shown.body.count(b'class="chart"') == 2
    # Who may not read the log sees no figures of it.
    other = await console.colleague().open("/ui/o/acme/applications/shop")
    assert b'class="chart"' not in other.shown.body


async def test_the_page_needs_few_statements(log_of: Log) -> None:
    log_of.add(log_of.mary, to=log_of.shop)
    await log_of.console.at("/sign-ins")
    await log_of.console.at("/sign-ins")
    # Two figures, the log, and what every page of the console asks: who calls, and, in one statement, what its frame says.
    assert log_of.console.log.events("request")[-1]["db_round_trips"] <= 6


async def test_nobody_has_signed_in_yet(console: ConsoleScene) -> None:
    tab = await console.at("/sign-ins")
    assert "No sign-ins yet" in tab.page.text


async def test_whoever_may_not_read_the_audit_log_sees_figures_alone(log_of: Log) -> None:
    console = log_of.console
    log_of.add(log_of.mary, to=log_of.shop)
    member = console.colleague()
    tab = await member.open("/ui/o/acme/sign-ins")
    assert tab.status == 200
    assert "By application, last 30 days" in tab.page.text
    assert "mary@acme.example" not in tab.page.text
    assert (await member.open("/ui/o/acme/sign-ins/~export")).status == 403
    assert "Recent sign-ins" not in (await member.open("/ui/o/acme/applications/shop")).page.text


async def test_others_are_told_nothing(log_of: Log) -> None:
    console = log_of.console
    stranger, tab = console.stranger()
    assert (await tab.open("/ui/o/acme/sign-ins")).status == 403
    assert (await console.request("GET", API, by=stranger)).status == 403
    # What people do elsewhere is not in the log, nor reached by its filters.
    globex = console.tenants.add("initech")
    theirs = console.tenants.service(globex, "theirs")
    log_of.add(log_of.mary, to=theirs, of=globex)
    log_of.add(log_of.mary, to=log_of.shop)
    assert [one["service_slug"] for one in (await log_of.listed())["sign_ins"]] == ["shop"]
    assert (await log_of.listed(f"?service_id={theirs.id}"))["sign_ins"] == []


async def test_a_listed_person_has_no_name_and_a_deleted_one_no_address(log_of: Log) -> None:
    console = log_of.console
    console.people.change("update memberships set own_since = null where user_id = %s", log_of.mary.user)
    log_of.add(log_of.mary, to=log_of.shop)
    (listed,) = (await log_of.listed())["sign_ins"]
    assert (listed["email"], listed["name"]) == ("mary@acme.example", None)
    console.people.change("update login_events set user_id = null")
    (listed,) = (await log_of.listed())["sign_ins"]
    assert (listed["user_id"], listed["email"], listed["name"]) == (None, None, None)
    assert (await console.at("/sign-ins")).status == 200


async def test_an_application_shows_its_newest(log_of: Log) -> None:
    console = log_of.console
    assert "No sign-ins yet" in (await console.at("/applications/shop")).page.text
    log_of.add(log_of.mary, to=log_of.shop)
    tab = await console.at("/applications/shop")
    assert "Mary Shelley" in tab.page.text
    assert f"/ui/o/acme/sign-ins?service_id={log_of.shop.id}" in tab.page.links


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_reason_has_words(language: Language) -> None:
    text = shipped_pages().text(language)
    assert all(text(_outcome(failure)[0]) for failure in LoginFailure)
    assert text(_outcome("got_in")[0])
    assert SIGN_IN_LOG.exported


async def test_a_persons_page_says_how_they_sign_in_and_where_they_may(log_of: Log) -> None:
    console = log_of.console
    board = console.tenants.service(console.acme, "board")
    console.people.change("update services set sign_in_policy = 'assigned' where id = %s", board.id)
    tab = await console.at(f"/people/{log_of.mary.user}")
    for said in (
        "This person has not signed in here yet",
        "Access to applications",
        "Only people with a role can sign in to the application",
        "Can sign in",
        "Cannot sign in",
    ):
        assert said in tab.page.text, said
    log_of.add(log_of.mary, to=log_of.shop, failure=LoginFailure.WRONG_PASSWORD)
    tab = await console.at(f"/people/{log_of.mary.user}")
    assert "Wrong password" in tab.page.text
    assert f"/ui/o/acme/sign-ins?person={log_of.mary.user}" in tab.page.links
    console.tenants.assign(board, user_id=log_of.mary.user)
    assert "The person has a role in the application" in (await console.at(f"/people/{log_of.mary.user}")).page.text


async def test_verdicts_are_for_those_who_manage_applications_and_about_people_here(log_of: Log) -> None:
    console = log_of.console
    asked = f"/api/organizations/acme/users/{log_of.mary.user}/sign-in-verdicts"
    (shop,) = (await console.request("GET", asked, by=console.ada)).ok()["services"]
    assert (shop["slug"], shop["sign_in"]["may_sign_in"]) == ("shop", True)
    stranger, _ = console.stranger()
    assert (await console.request("GET", asked, by=stranger)).status == 403
    assert (await console.request("GET", asked.replace(str(log_of.mary.user), str(stranger.user)), by=console.ada)).status == 404
    member = console.people.add()
    console.tenants.join(member, console.acme)
    assert (await console.request("GET", asked, by=member)).status == 403
    tab = await console.browser(member).tab().open(f"/ui/o/acme/people/{log_of.mary.user}")
    assert tab.status == 200
    assert "Access to applications" not in tab.page.text


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_wrong_password_of_a_member_by_their_own_act_is_in_the_log(log_of: Log, is_own: bool) -> None:
    console = log_of.console
    person = await console.people.with_password(PASSWORD)
    console.tenants.join(person, console.acme, listed=not is_own)
    assert (await Browser(console.client).login(person, "wrong", org_slug="acme", service_slug="shop")).status == 401
    found = [(one["email"], one["failure"]) for one in (await log_of.listed("?success=false"))["sign_ins"]]
    assert found == ([(person.email, "wrong_password")] if is_own else [])


async def test_a_member_who_is_an_end_user_too_has_one_page(log_of: Log) -> None:
    console, mary = log_of.console, log_of.mary
    console.tenants.uses(mary, log_of.shop)
    teams = "/api/organizations/acme/teams"
    (await console.request("POST", teams, {"slug": "sales", "name": "Sales"}, by=console.ada)).ok(201)
    assert (await console.request("PUT", f"{teams}/sales/members/{mary.user}", by=console.ada)).status == 204
    tab = await console.at(f"/people/users/{mary.user}")
    assert tab.place == f"/ui/o/acme/people/{mary.user}"
    for said in (
        "Member",
        "Recent sign-ins",
        "Access to applications",
        "Teams",
        "Changes to this account",
        "Remove from organization",
    ):
        assert said in tab.page.text, said
    assert "/ui/o/acme/applications/shop" in tab.page.links
    guest = console.people.add("guest@example.org")
    console.tenants.uses(guest, log_of.shop)
    tab = await console.at(f"/people/users/{guest.user}")
    assert tab.place == f"/ui/o/acme/people/users/{guest.user}"
    assert "guest@example.org" in tab.page.text
    stranger, theirs = console.stranger()
    assert (await console.at(f"/people/users/{stranger.user}")).status == 404
    assert (await theirs.open(f"/ui/o/acme/people/{mary.user}")).status == 403


async def test_all_sessions_of_a_member_here_end_and_no_others(log_of: Log) -> None:
    console, mary = log_of.console, log_of.mary
    here = [await console.tenants.token_in(mary, place) for place in (console.acme, log_of.shop)]
    elsewhere = await console.tenants.token_in(mary, None)
    assert "Revoke sessions" in (await console.at(f"/people/{mary.user}")).page.text
    tab = await console.at(f"/people/{mary.user}/end-sessions")
    assert "Revoke the sessions of" in tab.page.text
    await console.submit(f"/people/{mary.user}/end-sessions")
    assert [(await console.client.get("/api/user", token=token)).status for token in (*here, elsewhere)] == [401, 401, 200]
    assert "Sessions of Mary Shelley in this organization revoked." in console.tab.page.text
    assert "Revoke sessions" not in (await console.at(f"/people/{mary.user}")).page.text
    asked = f"/api/organizations/acme/members/{mary.user}/sessions"
    assert (await console.request("DELETE", asked, by=console.ada)).ok()["sessions_revoked"] == 0
    guest, (stranger, _) = console.people.add(), console.stranger()
    console.tenants.uses(guest, log_of.shop)
    assert (await console.request("DELETE", asked.replace(str(mary.user), str(guest.user)), by=console.ada)).status == 404
    assert (await console.request("DELETE", asked, by=stranger)).status == 403
    assert (await console.request("DELETE", asked, by=mary)).status == 403
