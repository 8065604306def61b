"""Why somebody cannot sign in: for those who read the log and open the person's page, and what that page says."""

from uuid import uuid4

import pytest

from core.domain.identity.login_events import LoginFailure
from core.domain.tenancy.roles import Capability
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.test_sign_ins import Log
from tests.http.people import Person

WHY = "/people/why"


@pytest.fixture
async def board(console: ConsoleScene) -> str:
    return await made(console, "Board", "web", "https://board.example.com/callback", "members")


def member(console: ConsoleScene, email: str = "grace@example.org", *, listed: bool = False) -> Person:
    person = console.people.add(email)
    console.tenants.join(person, console.acme, "member", listed=listed)
    return person


async def ask(console: ConsoleScene, email: str) -> str:
    await console.at(WHY)
    tab = await console.submit(WHY, email=email)
    # What was typed is in no address.
    assert "?" not in tab.place
    return tab.page.text


async def test_the_rule_that_keeps_somebody_out_stands_with_its_place(console: ConsoleScene, board: str) -> None:
    grace = member(console)
    console.people.change("update services set sign_in_policy = 'assigned'")
    said = await ask(console, "Grace@Example.org ")
    assert "No application of this organization lets grace@example.org in." in said
    assert "Only people with a role may sign in, and this person has none." in said
    assert f"/ui/o/acme{board}/access" in console.tab.page.links
    # The page of the known person says the same, and the person's page leads there.
    tab = await console.at(f"/people/{grace.user}")
    assert f"/ui/o/acme/people/users/{grace.user}/why" in tab.page.links
    for place in (f"/people/{grace.user}/why", f"/people/users/{grace.user}/why"):
        assert "No application of this organization lets grace@example.org in." in (await console.at(place)).page.text


async def test_failed_tries_stand_there_with_the_place_of_their_rule(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    log = Log(console)
    log.add(grace, failure=LoginFailure.WRONG_PASSWORD)
    log.add(grace, failure=LoginFailure.REFUSED_BY_RULE)
    log.add(grace)
    said = await ask(console, "grace@example.org")
    assert "Nothing in this organization keeps grace@example.org out" in said
    assert "Wrong password" in said
    assert "/ui/o/acme/sign-in/risk" in console.tab.page.links


async def test_the_buttons_are_those_of_the_persons_page(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    acts = {f"/ui/o/acme/people/{grace.user}/{one}" for one in ("lock", "remove", "end-sessions")}
    page = set((await console.at(f"/people/{grace.user}")).page.links)
    await ask(console, "grace@example.org")
    assert acts & set(console.tab.page.links) == acts & page
    assert f"/ui/o/acme/people/{grace.user}/lock" in console.tab.page.links


async def test_an_address_without_a_tie_is_nobodys(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    stranger, _ = console.stranger()
    (row,) = console.people.rows("select email from users where id = %s", stranger.user)
    answers = []
    for email in (row["email"], "nobody@example.org"):
        said = await ask(console, email)
        assert console.tab.status == 404
        answers.append(said.replace(email, ""))
        assert "Nobody with this address" in said
    assert answers[0] == answers[1]
    for user in (stranger.user, uuid4()):
        assert (await console.at(f"/people/users/{user}/why")).status == 404
        assert (await console.at(f"/people/{user}/why")).status == 404


@pytest.mark.parametrize("change", ["", "deactivated_at = now()"])
async def test_of_the_merely_listed_the_answer_is_the_same_whatever_is_outside(
    change: str,
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - one application
) -> None:
    grace = member(console, listed=True)
    if change:
        console.people.change(f"update users set {change} where id = %s", grace.user)
    said = await ask(console, "grace@example.org")
    assert "Nothing in this organization keeps" in said
    assert "something outside this organization" in said
    assert "deactivated" not in said


async def test_of_a_member_by_their_own_act_a_lock_is_said(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    console.people.change("update users set deactivated_at = now() where id = %s", grace.user)
    said = await ask(console, "grace@example.org")
    assert "The account is deactivated." in said
    assert "something outside" not in said


@pytest.mark.parametrize("lacks", [Capability.AUDIT_LOGS_VIEW, Capability.END_USERS_VIEW, Capability.SERVICES_MANAGE])
async def test_who_may_not_read_the_log_or_the_person_is_refused(lacks: Capability, console: ConsoleScene) -> None:
    grace = member(console)
    held = {Capability.AUDIT_LOGS_VIEW, Capability.END_USERS_VIEW, Capability.SERVICES_MANAGE} - {lacks}
    person = console.people.add()
    console.tenants.join(person, console.acme, console.tenants.role(console.acme, "some", held))
    tab = console.browser(person).tab()
    for place in (WHY, f"/people/users/{grace.user}/why"):
        assert (await tab.open(f"/ui/o/acme{place}")).status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(f"/ui/o/acme{WHY}")).status == 403
    assert (await stranger.open(f"/ui/o/globex/people/users/{grace.user}/why")).status == 404
