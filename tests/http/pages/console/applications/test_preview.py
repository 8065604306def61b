"""The token preview, the test sign-in and the recent refusals of an application."""

import pytest
import trio

from tests.http.pages.console.applications.conftest import CALLBACK
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE

# What an application would have got.
ISSUED = ("authorization_codes", "consents", "service_users")


def address_of(console: ConsoleScene, user: object) -> str:
    return str(console.people.rows("select email from users where id = %s", user)[0]["email"])


async def test_each_claim_is_shown_with_its_source_and_each_missing_one_with_the_reason(console: ConsoleScene, billing: str) -> None:
    address = address_of(console, console.ada.user)
    tab = await console.at(f"{billing}/token-preview?person={address}")
    assert tab.status == 200
    text = tab.page.text
    assert "Anyone with an account can sign in to the application." in text
    assert "has not been asked for consent yet" in text
    assert str(console.ada.user) in text
    assert "Token" in text
    assert "acme/owner" in text
    assert "the person has not allowed the application to learn it" in text
    by_id = await console.at(f"{billing}/token-preview?person={console.ada.user}&scope_openid=yes")
    assert by_id.status == 200
    assert "acme/owner" not in by_id.page.text.partition("Userinfo")[2].partition("Access token")[0]


async def test_people_without_a_tie_are_nobody(console: ConsoleScene, billing: str) -> None:
    stranger, _ = console.stranger()
    for person in (address_of(console, stranger.user), str(stranger.user), "nobody@example.org"):
        tab = await console.at(f"{billing}/token-preview?person={person}")
        assert tab.status == 404
        assert "No member of the organization and no user of the application has this email address or ID" in tab.page.text
    assert (await console.at(f"{billing}/token-preview?person=nobody")).status == 400


async def test_a_person_who_would_be_turned_away_and_the_rule_that_decides(console: ConsoleScene, billing: str) -> None:
    console.people.change("update services set sign_in_policy = 'assigned'")
    tab = await console.at(f"{billing}/token-preview?person={console.ada.user}")
    assert "Only people with a role can sign in to the application, and this person has none." in tab.page.text


async def go_through(console: ConsoleScene, billing: str, password: str) -> None:
    await console.has_password(PASSWORD)
    await console.at(f"{billing}/test-sign-in")
    tab = await console.submit(f"{billing}/test-sign-in")
    assert tab.place.startswith("/ui/sign-in/password")
    # The pages have the looks of the application's organization.
    assert "Acme" in tab.page.text
    await tab.send(next(number for number, form in enumerate(tab.page.forms) if "password" in form.fields), password=password)


async def test_a_test_sign_in_asks_for_the_password_and_ends_on_the_claims(console: ConsoleScene, billing: str) -> None:
    before = len(console.people.rows("select from sessions where service_id is not null"))
    await go_through(console, billing, PASSWORD)
    tab = console.tab
    assert tab.place == f"/ui/o/acme{billing}/test-sign-in/result"
    assert tab.status == 200
    assert "Billing would now ask for your consent" in tab.page.text
    assert "Nothing was issued to the application." in tab.page.text
    assert str(console.ada.user) in tab.page.text
    # Of the places, the first is open; the others are for programs.
    assert tab.shown.body.decode().count('<details class="unfolds" open>') == 1
    # The application got nothing.
    for table in ISSUED:
        assert console.people.rows(f"select from {table}") == [], table
    assert len(console.people.rows("select from sessions where service_id is not null or scopes is not null")) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("update services set trusted = true", "would now be redirected to Billing"),
        ("update services set sign_in_policy = 'assigned'", "you do not have access to"),
        ("update services set redirect_uris = '{}'", "has no redirect URI"),
        (
            "update services set service_type = 'api', redirect_uris = '{https://a.example/}'; delete from client_secrets",
            "needs a client secret",
        ),
    ],
)
async def test_a_test_sign_in_says_what_would_come_next(change: str, said: str, console: ConsoleScene, billing: str) -> None:
    for statement in change.split(";"):
        console.people.change(statement)
    tab = await console.at(f"{billing}/test-sign-in/result")
    assert said in tab.page.text


async def test_a_wrong_password_ends_nowhere_and_the_flow_belongs_to_its_browser(console: ConsoleScene, billing: str) -> None:
    await go_through(console, billing, "wrong")
    assert console.tab.place.startswith("/ui/sign-in/password")
    place = console.tab.place
    colleague = console.colleague("admin")
    tab = await colleague.open(place)
    assert tab.status == 400
    # Another's result is their own: the page shows the claims of whoever looks.
    tab = await colleague.open(f"/ui/o/acme{billing}/test-sign-in/result")
    assert tab.status == 200
    assert str(console.ada.user) not in tab.page.text


async def test_a_test_of_another_session_is_out_of_date(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/test-sign-in")
    form = console.fields(f"{billing}/test-sign-in")
    tab = await console.tab._go("POST", form.action, {**form.fields, "form_token": "another"})
    assert tab.status == 403
    assert console.people.rows("select from flows") == []


async def test_recent_refusals_show_what_was_received_beside_what_is_registered(console: ConsoleScene, billing: str) -> None:
    tab = await console.at(f"{billing}/refusals")
    assert "No failed requests" in tab.page.text
    (service,) = console.people.rows("select client_id from services")
    async with trio.open_nursery() as nursery:
        recorder = console.postern.federation.refusal_recorder
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        asked = f"/oauth/authorize?client_id={service['client_id']}&redirect_uri={CALLBACK}/&response_type=code&scope_openid=yes&state=ada"
        await console.client.get(asked)
        with trio.fail_after(PATIENCE):
            while not console.people.rows("select from authorization_refusals"):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    tab = await console.at(f"{billing}/refusals")
    assert "The redirect URI is not registered" in tab.page.text
    assert f"Received {CALLBACK}/" in tab.page.text
    assert f"Registered or expected {CALLBACK}" in tab.page.text
    assert f"/ui/o/acme{billing}/sign-in" in tab.page.links
