"""Why somebody cannot sign in: for those who read the log and open the person's page, and what that page says."""

from uuid import uuid4

import pytest

from core.domain.identity.login_events import LoginFailure
from core.domain.tenancy.roles import Capability
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.applications.test_first_sign_in import asking
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.test_sign_ins import Log
from tests.http.people import Person
from tests.security.hooks.hooked import Hooks, no

WHY = "/people/why"
HOOK_SAID = "sign-in hook denied a sign-in of this person"


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
    assert "grace@example.org cannot sign in to any application of this organization." in said
    assert "Only people with a role can sign in to the application, and this person has none." in said
    assert f"/ui/o/acme{board}/access" in console.tab.page.links
    # The page of the known person says the same, and the person's page leads there.
    tab = await console.at(f"/people/{grace.user}")
    assert f"/ui/o/acme/people/users/{grace.user}/why" in tab.page.links
    for place in (f"/people/{grace.user}/why", f"/people/users/{grace.user}/why"):
        assert "grace@example.org cannot sign in to any application of this organization." in (await console.at(place)).page.text


async def test_failed_tries_stand_there_with_the_place_of_their_rule(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    log = Log(console)
    log.add(grace, failure=LoginFailure.WRONG_PASSWORD)
    log.add(grace, failure=LoginFailure.REFUSED_BY_RULE)
    log.add(grace)
    said = await ask(console, "grace@example.org")
    assert "Nothing in this organization prevents grace@example.org from signing in" in said
    assert "Wrong password" in said
    assert "Attempts on the general sign-in page are not listed here. Only the person can see them" in said
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
        assert "no user of its applications has this email address" in said
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
    assert "Nothing in this organization prevents" in said
    assert "the cause is outside this organization" in said
    assert "deactivated" not in said


async def test_of_a_member_by_their_own_act_a_lock_is_said(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    console.people.change("update users set deactivated_at = now() where id = %s", grace.user)
    said = await ask(console, "grace@example.org")
    assert "The account is deactivated." in said
    assert "the cause is outside" not in said


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


async def test_what_only_platform_owners_change_leads_there_for_them_alone(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    console.people.change("update users set deactivated_at = now() where id = %s", grace.user)
    await ask(console, "grace@example.org")
    assert not [one for one in console.tab.page.links if one.startswith("/ui/platform/people/")]
    console.people.change("update users set is_platform_owner = true where id = %s", console.ada.user)
    await ask(console, "grace@example.org")
    place = f"/ui/platform/people/{grace.user}"
    assert place in console.tab.page.links
    assert (await console.tab.open(place)).status == 200


async def test_an_address_costs_the_same_statements_whether_a_stranger_has_it_or_nobody(console: ConsoleScene) -> None:
    stranger, _ = console.stranger()
    (row,) = console.people.rows("select email from users where id = %s", stranger.user)
    found = []
    for email in (row["email"], "nobody@example.org"):
        await ask(console, email)
        line = console.log.events("request")[-1]
        assert line["route"].endswith("/people/why")
        found.append(line["db_round_trips"])
    assert found[0] == found[1]


async def test_what_a_hook_has_refused_is_said_to_those_who_read_hooks(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - one application
    grace = member(console)
    at = f"/api/organizations/acme/users/{grace.user}/sign-in-verdicts"
    async with Hooks(console.postern).of(console.acme, no()) as hooked:
        redirect = "https://board.example.com/callback"
        answer = await console.browser(grace).request("GET", asking(console, redirect_uri=redirect))
        assert hooked.heard
        assert redirect not in (answer.header("location") or "")
        said = await ask(console, "grace@example.org")
        assert HOOK_SAID in said
        assert "/ui/o/acme/events/hooks" in console.tab.page.links
        told = (await console.client.get(at, token=await console.people.token(console.ada))).ok()
        assert told["hook_refused_at"] is not None
        # The hook is asked anew, so it decides nothing before.
        assert [one["sign_in"]["may_sign_in"] for one in told["services"]] == [True]
        # Who may not read hooks does not learn of it.
        reads = {Capability.AUDIT_LOGS_VIEW, Capability.MEMBERS_VIEW, Capability.END_USERS_VIEW, Capability.SERVICES_MANAGE}
        reader = console.people.add()
        console.tenants.join(reader, console.acme, console.tenants.role(console.acme, "readers", reads))
        await hooked.let_in(reader.session)
        tab = await console.browser(reader).tab().open(f"/ui/o/acme/people/users/{grace.user}/why")
        assert tab.status == 200
        # The log says why a sign-in ended. What the hook has said, and its page, are not for everybody who reads the log.
        assert HOOK_SAID not in tab.page.text
        assert "/ui/o/acme/events/hooks" not in tab.page.links
        assert (await console.client.get(at, token=await console.people.token(reader))).ok()["hook_refused_at"] is None
        # A hook that was changed has said nothing yet, and of the merely listed nobody learns it.
        console.people.change("update memberships set own_since = null where user_id = %s", grace.user)
        assert HOOK_SAID not in await ask(console, "grace@example.org")
        console.people.change("update memberships set own_since = now() where user_id = %s", grace.user)
        assert HOOK_SAID in await ask(console, "grace@example.org")
        await hooked.change()
        assert HOOK_SAID not in await ask(console, "grace@example.org")
