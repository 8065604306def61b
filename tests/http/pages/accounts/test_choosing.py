"""Which of several accounts an application, a device or a service provider gets."""

from typing import Any

import pytest

from tests.http.browsing import Tab, choices
from tests.http.federation.arriving import Arriving, is_page, left, told
from tests.http.pages.accounts.conftest import Shared
from tests.http.people import Person
from tests.http.signing_in import PASSWORD

CHOOSE = "/ui/choose-account?flow="


@pytest.fixture
async def ada(shared: Shared) -> Person:
    return await shared.person("ada")


@pytest.fixture
async def bob(shared: Shared) -> Person:
    return await shared.person("bob")


async def who(scene: Arriving, tab: Tab) -> Any:
    """The person whose code the application gets from this page."""
    return scene.code(left(tab)["code"])["user_id"]


async def test_several_accounts_and_no_word_which_leads_to_the_choice(shared: Shared, ada: Person, bob: Person) -> None:
    shared.allow(ada)
    shared.allow(bob)
    tabs = await shared.together(ada, bob)
    for chosen in (ada, bob):
        tab = await tabs.tab().open(shared.asking())
        assert tab.place.startswith(CHOOSE)
        await (tab.send(answer="current") if chosen is bob and await shared.in_use(tabs) == bob.email else tab.send(**pick(tab, chosen)))
        assert await who(shared, tab) == chosen.user
        assert await shared.in_use(tabs) == chosen.email


def pick(tab: Tab, person: Person) -> dict[str, str]:
    """The button of this person: of the account in use, or of another one."""
    found = choices(tab)
    return {"account": found[person.email]} if person.email in found else {"answer": "current"}


@pytest.mark.parametrize(("asked", "asks"), [({}, False), ({"prompt": "select_account"}, True)])
async def test_a_hint_that_names_the_account_in_use_needs_no_choice_unless_the_request_wants_one(
    shared: Shared, ada: Person, bob: Person, asked: dict[str, str], asks: bool
) -> None:
    shared.allow(bob)
    tabs = await shared.together(ada, bob)
    for hint in ({"login_hint": " BOB@example.org"}, {"id_token_hint": await shared.id_token(bob)}):
        answer = await tabs.request("GET", shared.asking(**hint, **asked))
        assert (answer.header("location") or "").startswith(CHOOSE) is asks
        if not asks:
            assert shared.code(told(answer)["code"])["user_id"] == bob.user


async def test_a_hint_that_names_another_account_here_stands_first_and_is_never_used_by_itself(
    shared: Shared, ada: Person, bob: Person
) -> None:
    """Any site can send a browser with a name, so a name changes no account: neither in use here, nor for the application."""
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    tab = tabs.tab()
    for hint in ({"login_hint": ada.email}, {"id_token_hint": await shared.id_token(ada)}):
        await tab.open(shared.asking(**hint))
        assert tab.place.startswith(CHOOSE)
        first = tab.page.text.index("Continue as ada@example.org")
        assert first < tab.page.text.index("Continue as bob@example.org")
        assert await shared.in_use(tabs) == bob.email
    assert shared.codes() == []
    await tab.send(**pick(tab, ada))
    assert await who(shared, tab) == ada.user


async def test_a_hint_that_is_swapped_gets_nobody_else(shared: Shared, ada: Person, bob: Person) -> None:
    """The request names Ada by her ID token: whoever chooses Bob on the way has to sign in as Ada, or the application gets nobody."""
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking(id_token_hint=await shared.id_token(ada)))
    await tab.send(answer="current")
    assert tab.place.startswith("/ui/sign-in")
    await (await tab.send(email=bob.email)).send(password=PASSWORD)
    assert left(tab)["error"] == "login_required"
    assert shared.codes() == []


@pytest.mark.parametrize("hint", ["eve@example.org", "ada", None])
async def test_a_request_that_forbids_questions_gets_a_word_for_several_accounts(
    shared: Shared, ada: Person, bob: Person, hint: str | None
) -> None:
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    said = told(await tabs.request("GET", shared.asking(prompt="none", login_hint=hint)))
    assert said["error"] == "account_selection_required"
    # Also when none of them is in use.
    await (await tabs.tab().open("/ui/profile")).send(0)
    assert told(await tabs.request("GET", shared.asking(prompt="none", login_hint=hint)))["error"] == "account_selection_required"


async def test_a_request_that_forbids_questions_gets_the_account_that_it_names(shared: Shared, ada: Person, bob: Person) -> None:
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    for person in (ada, bob):
        for hint in ({"login_hint": person.email}, {"id_token_hint": await shared.id_token(person)}):
            answer = await tabs.request("GET", shared.asking(prompt="none", **hint))
            code = shared.code(told(answer)["code"])
            assert code["user_id"] == person.user
    assert await shared.in_use(tabs) == bob.email
    # The time of the sign-in that counts is that account's.
    shared.people.change("update sessions set proved_at = now() - interval '1 hour' where user_id = %s", ada.user)
    for person, said in ((ada, "error"), (bob, "code")):
        assert said in told(await tabs.request("GET", shared.asking(prompt="none", max_age="600", login_hint=person.email)))


async def test_a_request_that_forbids_questions_tells_an_application_nothing_about_people_who_allowed_it_nothing(
    shared: Shared, ada: Person, bob: Person
) -> None:
    eve = shared.people.add("eve@example.org")
    tabs = await shared.together(ada, bob)

    async def answers() -> list[str]:
        hints = [{"login_hint": one.email} for one in (ada, eve)] + [{"id_token_hint": await shared.id_token(one)} for one in (ada, eve)]
        return [told(await tabs.request("GET", shared.asking(prompt="none", **hint)))["error"] for hint in hints]

    assert set(await answers()) == {"consent_required"}
    shared.allow(bob)
    # Ada is here, and Eve is not: the answers are the same.
    by_address, of_nobody, by_token, of_nobody_by_token = await answers()
    assert by_address == of_nobody == "account_selection_required"
    assert by_token == of_nobody_by_token == "login_required"


async def test_registering_and_signing_in_anew_need_no_choice(shared: Shared, ada: Person, bob: Person) -> None:
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking(prompt="create"))
    assert tab.place.startswith("/ui/register")


async def test_a_sign_in_that_is_demanded_asks_whose_first(shared: Shared, ada: Person, bob: Person) -> None:
    shared.allow(ada)
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking(prompt="login"))
    assert tab.place.startswith(CHOOSE)
    await tab.send(**pick(tab, ada))
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert tab.page.inputs["email"]["value"] == ada.email
    assert shared.codes() == []
    await (await tab.send()).send(password=PASSWORD)
    assert await who(shared, tab) == ada.user


async def test_another_account_than_those_here(shared: Shared, ada: Person, bob: Person) -> None:
    eve = await shared.person("eve")
    shared.allow(eve)
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking())
    await tab.send(answer="another")
    assert tab.place.startswith("/ui/sign-in?flow=")
    await (await tab.send(email=eve.email)).send(password=PASSWORD)
    assert await who(shared, tab) == eve.user
    assert await shared.here(tabs) == [eve.email, bob.email, ada.email]


async def test_the_page_that_asks_for_consent_leads_to_the_choice_among_several(shared: Shared, ada: Person, bob: Person) -> None:
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking(login_hint=bob.email))
    assert tab.place.startswith("/ui/consent")
    await tab.send(answer="another")
    assert tab.place.startswith(CHOOSE)
    await tab.send(**pick(tab, ada))
    assert tab.place.startswith("/ui/consent")
    assert ada.email in tab.page.text
    await tab.send(answer="allow")
    assert await who(shared, tab) == ada.user


async def test_the_way_of_one_account_is_not_gone_on_with_another(shared: Shared, ada: Person, bob: Person) -> None:
    """Back buttons and other tabs bring the pages of a request up again when another account is in use."""
    shared.allow(bob)
    tabs = await shared.together(bob)
    tab = await tabs.tab().open(shared.asking(prompt="login"))
    await (await tab.send(email=ada.email)).send(password=PASSWORD)
    assert tab.place.startswith("/ui/consent")
    place, form = tab.place, tab.page.forms[0].fields
    flow = place.partition("?")[2]
    await shared.use(tabs, bob)
    for page in ("/ui/consent", "/ui/authorize", "/ui/sign-in", "/ui/sign-in/password", "/ui/second-factor-required", "/ui/answers"):
        is_page(await tabs.request("GET", f"{page}?{flow}"), 409, "belongs to another account")
    for answer in ("allow", "deny", "another"):
        is_page(await tabs.request("POST", "/ui/consent", {**form, "answer": answer}), 409, "Choose account")
    assert shared.codes() == []
    # The page leads to the choice, and the choice of Ada's account back to the page.
    await tab.send(answer="allow")
    (onward,) = tab.page.links
    await tab.open(onward)
    await tab.send(account=choices(tab)[ada.email])
    assert tab.place == place
    await tab.send(answer="allow")
    assert await who(shared, tab) == ada.user


async def test_a_choice_after_another_persons_sign_in_begins_anew(shared: Shared, ada: Person, bob: Person) -> None:
    """A flow takes one sign-in. The page of the choice, opened again, leads on with a flow of its own."""
    shared.allow(bob)
    tabs = await shared.together(bob)
    tab = await tabs.tab().open(shared.asking(prompt="login"))
    await (await tab.send(email=ada.email)).send(password=PASSWORD)
    flow = tab.place.partition("?")[2]
    await tab.open(f"/ui/choose-account?{flow}")
    await tab.send(**pick(tab, bob))
    assert tab.place.startswith("/ui/sign-in?flow=") or await who(shared, tab) == bob.user
    finished = await tabs.tab().open(f"/ui/choose-account?{flow}")
    assert finished.status == 200


async def test_two_clicks_on_the_choice_lead_to_the_application_twice(shared: Shared, ada: Person, bob: Person) -> None:
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking())
    form = {**tab.page.forms[0].fields, **pick(tab, ada)}
    for _ in range(2):
        await tab.tabs.request("POST", "/ui/choose-account", form)
    assert {code["user_id"] for code in shared.codes()} == {ada.user}


async def test_a_choice_that_is_over_leads_nowhere(shared: Shared, ada: Person, bob: Person) -> None:
    for person in (ada, bob):
        shared.allow(person)
    tabs = await shared.together(ada, bob)
    tab = await tabs.tab().open(shared.asking())
    form = {**tab.page.forms[0].fields, **pick(tab, ada)}
    await tabs.request("POST", "/ui/choose-account", form)
    shared.people.change("update flows set completed_at = completed_at - interval '1 minute'")
    other = {**tab.page.forms[0].fields, "account": form["current"]}
    is_page(await tabs.request("POST", "/ui/choose-account", other), 400, "out of date")
    assert {code["user_id"] for code in shared.codes()} == {ada.user}


async def test_an_application_signs_out_the_account_of_its_token_alone(shared: Shared, ada: Person, bob: Person) -> None:
    tabs = await shared.together(ada, bob)
    answer = await tabs.request("GET", f"/oauth/logout?id_token_hint={await shared.id_token(ada)}")
    assert answer.header("location") == "/ui/signed-out"
    assert (shared.lives(ada), shared.lives(bob), await shared.in_use(tabs)) == (False, True, bob.email)
    assert await shared.here(tabs) == [bob.email]
    # The hint of somebody who is not here any more asks, and ends nothing by itself.
    asked = await tabs.request("GET", f"/oauth/logout?id_token_hint={await shared.id_token(ada)}")
    is_page(asked, 200, "bob@example.org")
    assert shared.lives(bob)
