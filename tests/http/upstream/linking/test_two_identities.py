"""Two accounts at one provider in one browser's flow: each answer of the provider counts for its own person, with that person's second
factor, and never for the person whom the other answer named.
"""

from tests.http.browsing import Tab, Tabs
from tests.http.federation.arriving import answer_in, left
from tests.http.people import Person
from tests.http.signing_in import enable_mfa
from tests.http.upstream.scene import ADA, UpstreamScene

EVE = "eve@example.org"


async def _both(scene: UpstreamScene) -> tuple[Person, Person]:
    """Ada has a second factor, Eve has none. Both are known at the provider, and have allowed the application everything."""
    ada, eve = scene.verified(), scene.verified(EVE)
    for person in (ada, eve):
        scene.allow(person)
    return ada, eve


async def _departed(scene: UpstreamScene, tabs: Tabs) -> tuple[str, str]:
    """Two ways to the provider, in one flow of one browser."""
    tab = await tabs.tab().open(scene.asking())
    (button,) = [link for link in tab.page.links if link.startswith("/auth/websuite")]
    query = button.removeprefix("/auth/websuite")
    return await scene.leave(tabs, query), await scene.leave(tabs, query)


async def _came_back(scene: UpstreamScene, tabs: Tabs, location: str, email: str) -> Tab:
    fake = scene.sits(email, sub=f"at-websuite-{email}")
    answer = await tabs.request("GET", fake.consent(location))
    tab = tabs.tab()
    tab.place, tab.answer = answer.header("location") or "", answer
    return await tab.open(tab.place) if tab.place.startswith("/") else tab


async def test_a_second_factor_is_asked_of_the_person_of_the_last_answer(scene: UpstreamScene) -> None:
    ada, eve = await _both(scene)
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    tabs = scene.browser()
    first, second = await _departed(scene, tabs)
    awaiting = await _came_back(scene, tabs, first, ADA)
    assert awaiting.place.startswith("/ui/sign-in/second-factor")
    assert await scene.who(tabs) is None
    # Eve needs no second factor. She comes in as herself, and the page that awaits Ada's code lets nobody in as Ada without it.
    arrived = await _came_back(scene, tabs, second, EVE)
    (code,) = scene.codes()
    assert code["user_id"] == eve.user
    assert answer_in(arrived.shown.header("location"))["code"]
    assert await scene.who(tabs) == eve.user
    (form, *_) = awaiting.page.forms
    for code_of_ada in ("000000", totp.now()):
        await tabs.request("POST", form.action, {**form.fields, "code": code_of_ada})
        assert await scene.who(tabs) == eve.user
    assert len(scene.codes()) == 1
    assert {row["user_id"] for row in scene.codes()} == {eve.user}


async def test_whoever_is_in_does_not_become_the_other_without_the_others_second_factor(scene: UpstreamScene) -> None:
    ada, eve = await _both(scene)
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    tabs = scene.browser()
    first, second = await _departed(scene, tabs)
    await _came_back(scene, tabs, first, EVE)
    assert await scene.who(tabs) == eve.user
    tab = await _came_back(scene, tabs, second, ADA)
    assert await scene.who(tabs) == eve.user
    assert {row["user_id"] for row in scene.codes()} == {eve.user}
    if "second-factor" in tab.place:
        await tab.send(code=totp.now())
        assert left(tab)["code"]
        assert await scene.who(tabs) == ada.user


async def test_each_identity_stays_with_its_own_account(scene: UpstreamScene) -> None:
    ada, eve = await _both(scene)
    tabs = scene.browser()
    first, second = await _departed(scene, tabs)
    await _came_back(scene, tabs, first, ADA)
    await _came_back(scene, tabs, second, EVE)
    kept = {(row["user_id"], row["subject"]) for row in scene.identities()}
    assert kept <= {(ada.user, f"at-websuite-{ADA}"), (eve.user, f"at-websuite-{EVE}")}
    assert (ada.user, f"at-websuite-{ADA}") in kept
