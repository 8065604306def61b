"""The offer of a passkey at the end of a sign-in by a password. The tests do the script's work by hand, and say that the browser can make
one.
"""

import json
from functools import partial
from typing import Any, Final

import pytest

from core.domain.identity.passkeys import Obstacle
from entrypoints.bootstrap import Postern
from tests.authenticator import Passkey
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK, Arriving, told
from tests.http.federation.arriving import left as left_for
from tests.http.people import People, Person
from tests.http.routing import change_route, route
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited

PAGE: Final = "/ui/passkey-offer"
MADE: Final = f"{PAGE}/passkey"
ADA: Final = "ada@lovelace.example"


class OfferScene(Arriving):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.owner

    async def ada(self) -> Person:
        return await self.people.with_password(PASSWORD, ADA)

    async def sign_in(self, person: Person, place: str = "/ui/sign-in", *, can: str = "yes", tabs: Tabs | None = None) -> Tab:
        tab = await (tabs or self.browser()).tab().open(place)
        await tab.send(email=person.email)
        return await tab.send(password=PASSWORD, makes_passkeys=can)

    async def make(self, tab: Tab, **more: Any) -> Tab:
        fields = {**form_of(tab, MADE), "credential": json.dumps(Passkey.made(**more).create(await options(tab)))}
        return await tab._go("POST", MADE, fields)

    def person(self) -> dict[str, Any]:
        (row,) = self.people.rows(
            "select passkey_offered_at is not null as offered, passkey_offers_ended_at is not null as ended,"
            " (select count(*) from passkeys where user_id = users.id) as passkeys from users where email_key = %s",
            ADA,
        )
        return row

    def pass_days(self, days: int) -> None:
        self.people.change("update users set passkey_offered_at = passkey_offered_at - %s * interval '1 day'", days)


def form_of(tab: Tab, action: str) -> dict[str, Any]:
    (form,) = [one for one in tab.page.forms if one.action == action]
    return form.fields


async def options(tab: Tab) -> Any:
    answer = await tab.tabs.request("POST", "/ui/passkeys/add/options", form_of(tab, MADE))
    assert answer.status == 200, answer.body
    return answer.json()


async def answer(tab: Tab, **fields: str) -> Tab:
    return await tab._go("POST", PAGE, {**form_of(tab, PAGE), **fields})


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> OfferScene:
    return OfferScene(postern, people, unlimited(postern), log)


async def test_a_passkey_is_made_at_the_end_of_a_sign_in(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada)
    assert tab.place.startswith(f"{PAGE}?flow=")
    assert "Create a passkey?" in tab.page.text
    assert scene.person() == {"offered": True, "ended": False, "passkeys": 0}
    await scene.make(tab)
    assert tab.place == "/ui"
    assert scene.person()["passkeys"] == 1
    # One for the person, and one for organizations where the membership is their own.
    added = [one["name"] for one in scene.told("audit_log") if "passkey" in one["name"]]
    assert sorted(added) == ["security.passkey.added", "security.passkeys.changed"]
    # Whoever has one is offered none.
    scene.pass_days(31)
    assert (await scene.sign_in(ada)).place == "/ui"


async def test_not_now_holds_for_thirty_days_in_every_browser(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada)
    await answer(tab, answer="later")
    assert tab.place == "/ui"
    assert (await scene.sign_in(ada)).place == "/ui"
    scene.pass_days(29)
    assert (await scene.sign_in(ada)).place == "/ui"
    scene.pass_days(2)
    assert (await scene.sign_in(ada)).place.startswith(PAGE)


async def test_whoever_leaves_the_page_has_been_asked(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada)
    # The page comes again for whoever loads it again, and only in this sign-in.
    assert "Create a passkey?" in (await tab.open(tab.place)).page.text
    assert (await tab.tabs.tab().open("/ui")).status == 200
    assert (await scene.sign_in(ada)).place == "/ui"


async def test_do_not_ask_again_holds_for_good(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada)
    await answer(tab, answer="never")
    assert tab.place == "/ui"
    assert scene.person() == {"offered": True, "ended": True, "passkeys": 0}
    scene.pass_days(400)
    assert (await scene.sign_in(ada)).place == "/ui"
    # The person adds one themselves as ever.
    assert (await tab.open("/ui/passkeys/add")).status == 200


async def test_without_scripts_or_an_authenticator_nothing_is_offered(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada, can="")
    assert tab.place == "/ui"
    assert scene.person()["offered"] is False


async def test_an_installation_that_cannot_have_passkeys_offers_none(scene: OfferScene) -> None:
    ada = await scene.ada()
    put(scene.postern.identity.passkeys, relying_party=Obstacle.INSECURE)
    tab = await scene.browser().tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    assert "makes_passkeys" not in tab.page.inputs
    await tab.send(password=PASSWORD, makes_passkeys="yes")
    assert tab.place == "/ui"


async def test_the_offer_comes_after_the_second_factor_and_not_behind_a_trusted_device(scene: OfferScene) -> None:
    ada = await scene.ada()
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    tab = await scene.sign_in(ada)
    assert tab.place.startswith("/ui/sign-in/second-factor")
    assert scene.person()["offered"] is False
    await tab.send(code=totp.now(), makes_passkeys="yes", trust_device="yes")
    assert tab.place.startswith(PAGE)
    await answer(tab, answer="later")
    scene.pass_days(31)
    tab.tabs.cookies.pop("__Host-postern_session")
    assert (await scene.sign_in(ada, tabs=tab.tabs)).place == "/ui"


async def test_other_ways_in_offer_none(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.browser().tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab._go("POST", "/ui/sign-in/mail-link", {**tab.page.forms[1].fields, "makes_passkeys": "yes"})
    assert tab.place.startswith("/ui/check-mail")
    assert scene.person()["offered"] is False


async def test_an_application_gets_its_answer_after_each_answer(scene: OfferScene) -> None:
    ada = await scene.ada()
    scene.allow(ada)
    tabs = scene.browser()
    for act in ("later", "never", "make"):
        scene.people.change("update users set passkey_offered_at = null, passkey_offers_ended_at = null")
        tabs = scene.browser()
        tab = await scene.sign_in(ada, scene.asking(), tabs=tabs)
        assert tab.place.startswith(PAGE)
        await (scene.make(tab) if act == "make" else answer(tab, answer=act))
        assert left_for(tab, CALLBACK)["state"] == "a b&c"
    # A request that may show nothing is answered at once.
    scene.people.change("update users set passkey_offered_at = null, passkey_offers_ended_at = null")
    scene.people.change("delete from passkeys")
    assert "code" in told(await tabs.request("GET", scene.asking(prompt="none")))
    assert told(await scene.browser().request("GET", scene.asking(prompt="none")))["error"] == "login_required"
    # Nor is anybody stopped who is signed in already.
    assert "code" in told(await tabs.request("GET", scene.asking()))


async def test_the_flow_goes_on_where_the_offer_is_over_meanwhile(scene: OfferScene) -> None:
    ada = await scene.ada()
    scene.allow(ada)
    tab = await scene.sign_in(ada, scene.asking())
    offer = tab.place
    scene.people.give_passkey(ada)
    await tab.open(offer)
    assert left_for(tab, CALLBACK)["state"] == "a b&c"
    # A proof that has grown old makes no passkey, so there is nothing to offer, and the thirty days do not begin.
    scene.people.change("delete from passkeys")
    scene.people.change("update users set passkey_offered_at = null")
    browser = scene.browser()
    first = await browser.tab().open("/ui/sign-in")
    await first.send(email=ada.email)
    sent = first.page.forms[0]
    shown = await browser.request("POST", sent.action, {**sent.fields, "password": PASSWORD, "makes_passkeys": "yes"})
    scene.people.change("update sessions set proved_at = now() - interval '1 day'")
    assert (await first.open(shown.header("location") or "")).place == "/ui"
    assert scene.person()["offered"] is False


async def test_a_stale_proof_leads_to_the_page_that_adds_one(scene: OfferScene) -> None:
    tab = await scene.sign_in(await scene.ada())
    fields = {**form_of(tab, MADE), "credential": json.dumps(Passkey.made().create(await options(tab)))}
    scene.people.change("update sessions set proved_at = now() - interval '1 day'")
    await tab._go("POST", MADE, fields)
    assert tab.place.startswith("/ui/prove?to=/ui/passkey-offer/passkey")
    (number,) = [number for number, one in enumerate(tab.page.forms) if "password" in one.fields]
    await tab.send(number, password=PASSWORD)
    assert tab.place == "/ui/passkeys/add"
    assert scene.person()["passkeys"] == 0


async def test_two_sign_ins_at_once_are_offered_one(scene: OfferScene) -> None:
    ada = await scene.ada()

    async def place() -> Received:
        browser = scene.browser()
        tab = await browser.tab().open("/ui/sign-in")
        await tab.send(email=ada.email)
        sent = tab.page.forms[0]
        answered = await browser.request("POST", sent.action, {**sent.fields, "password": PASSWORD, "makes_passkeys": "yes"})
        location = answered.header("location") or ""
        assert location.startswith(PAGE)
        browsers.append((browser, location))
        return answered

    browsers: list[tuple[Tabs, str]] = []
    for _ in range(2):
        await place()
    answers = await all_at_once(*(partial(browser.request, "GET", location) for browser, location in browsers))
    assert sorted(one.status for one in answers) == [200, 303]


async def test_a_passkey_that_is_none_stands_at_the_page_and_the_offer_stays(scene: OfferScene) -> None:
    tab = await scene.sign_in(await scene.ada())
    for credential, said in (
        ("", "This passkey was not accepted"),
        (json.dumps(Passkey.made(flags=1).create(await options(tab))), "This passkey cannot be added"),
        (json.dumps(Passkey.made().create({"user": {"id": "AA"}, "challenge": "AA"})), "or adding it took too long"),
    ):
        await tab._go("POST", MADE, {**form_of(tab, MADE), "credential": credential})
        assert tab.status == 400
        assert said in tab.page.text
    await scene.make(tab)
    assert tab.place == "/ui"


async def test_a_form_that_is_sent_twice_makes_one_passkey(scene: OfferScene) -> None:
    ada = await scene.ada()
    scene.allow(ada)
    tab = await scene.sign_in(ada, scene.asking())
    fields = {**form_of(tab, MADE), "credential": json.dumps(Passkey.made().create(await options(tab)))}
    for _ in range(2):
        await tab._go("POST", MADE, fields)
        assert left_for(tab, CALLBACK)["state"] == "a b&c"
    assert scene.person()["passkeys"] == 1


async def test_another_browser_or_person_has_nothing_of_it(scene: OfferScene) -> None:
    ada = await scene.ada()
    tab = await scene.sign_in(ada)
    eve = await scene.people.with_password(PASSWORD, "eve@example.org")
    other = await scene.sign_in(eve, can="")
    assert (await other.open(tab.place)).status == 400
    # The same browser, with another person signed in meanwhile.
    place, fields = tab.place, form_of(tab, PAGE)
    again = await tab.tabs.tab().open("/ui/sign-in?again=another")
    await again.send(email=eve.email)
    await again.send(password=PASSWORD, makes_passkeys="")
    assert (await tab.open(place)).status == 409
    await tab._go("POST", PAGE, {**fields, "answer": "never"})
    assert tab.status in {400, 403, 409}
    assert scene.person()["ended"] is False


async def test_an_organization_lets_its_own_people_be(scene: OfferScene) -> None:
    ada = await scene.ada()
    (await scene.request("PATCH", "/api/organizations/acme/sign-in-rules", {"passkey_offers": False})).ok()
    # One that has merely listed the person decides nothing about what happens elsewhere.
    scene.tenants.join(ada, scene.acme, listed=True)
    tab = await scene.sign_in(ada)
    assert tab.place.startswith("/ui/confirm-membership")
    await tab.send(answer="later")
    assert tab.place.startswith(PAGE)
    await answer(tab, answer="later")
    assert tab.place == "/ui"
    scene.pass_days(31)
    scene.people.change("update memberships set own_since = now()")
    assert (await scene.sign_in(ada)).place == "/ui"
    scene.people.change("update all_organizations set passkey_offers = true")
    assert (await scene.sign_in(ada)).place.startswith(PAGE)


async def test_a_sign_in_domain_that_wants_its_provider_forbids_the_offer(scene: OfferScene) -> None:
    ada = await scene.ada()
    route(scene.people, scene.acme, "lovelace.example", login="password_fallback_if_provider_unavailable")
    # The provider cannot be used, so passwords are taken meanwhile.
    scene.people.change("delete from oauth_credentials")
    assert (await scene.sign_in(ada)).place == "/ui"
    change_route(scene.people, "lovelace.example", login_policy="password_allowed")
    assert (await scene.sign_in(ada)).place.startswith(PAGE)
