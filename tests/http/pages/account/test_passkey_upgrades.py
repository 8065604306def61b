"""Conditional create: after a sign-in by a password, the browser makes a passkey by itself. The tests do the script's work by hand."""

import json
from functools import partial
from typing import Any, Final

import pytest

from core.domain.identity.passkeys import Obstacle
from entrypoints.bootstrap import Postern
from tests.authenticator import BACKED_UP, ELIGIBLE, GOOD, Passkey
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.arriving import CALLBACK
from tests.http.federation.arriving import left as left_for
from tests.http.pages.account.test_passkey_offers import MADE, PAGE, OfferScene, form_of
from tests.http.pages.account.test_passkey_offers import options as asked_options
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited

UPGRADE: Final = "/ui/passkey-upgrade"
SILENT: Final = ELIGIBLE | BACKED_UP
"""Nobody was present, and nobody was verified: a password manager has made the passkey by itself."""


class UpgradeScene(OfferScene):
    async def arrive(self, person: Person, place: str = "/ui/sign-in") -> Tab:
        tab = await self.sign_in(person, place, can="conditional")
        assert tab.place.startswith(f"{UPGRADE}?flow="), tab.place
        return tab

    async def upgrade(self, tab: Tab, passkey: Passkey | None = None) -> Tab:
        return await sent(tab, (passkey or Passkey.made(flags=SILENT)).create((await options(tab)).ok()))


async def options(tab: Tab) -> Received:
    return await tab.tabs.request("POST", f"{UPGRADE}/options", form_of(tab, UPGRADE))


async def sent(tab: Tab, credential: Any) -> Tab:
    return await tab._go("POST", UPGRADE, {**form_of(tab, UPGRADE), "credential": json.dumps(credential)})


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> UpgradeScene:
    return UpgradeScene(postern, people, unlimited(postern), log)


async def test_the_browser_makes_a_passkey_and_the_person_gets_a_mail(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    tab = await scene.arrive(ada)
    asked = (await options(tab)).ok()
    # Nobody is asked, so a browser that could not verify anybody must not have to.
    assert asked["authenticatorSelection"] == {"residentKey": "required", "requireResidentKey": True, "userVerification": "preferred"}
    assert asked["attestation"] == "none"
    assert scene.person() == {"offered": False, "ended": False, "passkeys": 0}
    await scene.upgrade(tab)
    assert tab.place == "/ui"
    assert scene.person() == {"offered": True, "ended": False, "passkeys": 1}
    (passkey,) = scene.people.rows("select id, second_factor_since, made_on from passkeys")
    assert (passkey["second_factor_since"], passkey["made_on"]) == (None, "Firefox on Linux")
    added = [one for one in scene.told("audit_log") if one["name"] == "security.passkey.added"]
    assert [one["details"] for one in added] == [{"passkey_id": str(passkey["id"]), "name": "Firefox on Linux", "conditional": True}]
    (mail,) = [one for one in await Postbox(scene.postern).empty() if one.subject == "A passkey was added to your account"]
    assert "Your browser created it automatically after you signed in with your password." in " ".join(mail.text.split())
    assert f"{BASE_URL}/ui/passkeys/{passkey['id']}/remove" in mail.text
    # The link leads to the page that removes it.
    await tab.open(f"/ui/passkeys/{passkey['id']}/remove")
    assert "Remove" in tab.page.text
    await tab.send(len(tab.page.forms) - 1)
    # It counted as the offer, so the browser makes no other one at the next sign-in.
    assert scene.person() == {"offered": True, "ended": False, "passkeys": 0}
    assert (await scene.sign_in(ada, can="conditional")).place == "/ui"


async def test_a_sign_in_with_it_asks_for_verification_as_ever(scene: UpgradeScene) -> None:
    passkey = Passkey.made(flags=SILENT)
    await scene.upgrade(await scene.arrive(await scene.ada()), passkey)
    for flags, status in ((SILENT, 401), (SILENT | GOOD, 200)):
        passkey.flags = flags
        asked = (await scene.client.post("/api/auth/passkeys/options")).ok()
        assert (await scene.client.post("/api/auth/passkeys", {"credential": passkey.get(asked)})).status == status


async def test_a_browser_that_refuses_uses_no_pause(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    tab = await scene.arrive(ada)
    assert (await options(tab)).status == 200
    assert scene.person()["offered"] is False
    # Whoever leaves the page here is met again by the next sign-in; whoever goes on sees the page that offers one, as without a script.
    tab = await scene.arrive(ada)
    (onward,) = [one for one in tab.page.links if one.startswith(PAGE)]
    await tab.open(onward)
    assert "Create a passkey?" in tab.page.text
    assert scene.person()["offered"] is True
    await scene.make(tab)
    assert (tab.place, scene.person()["passkeys"]) == ("/ui", 1)


async def test_only_its_own_challenge_lets_the_person_be_absent(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    tab = await scene.arrive(ada)
    conditional = (await options(tab)).ok()
    (onward,) = [one for one in tab.page.links if one.startswith(PAGE)]
    offer = await tab.tabs.tab().open(onward)
    plain = await asked_options(offer)
    # The challenge of the silent way at the page of the offer, and that page's at the silent one.
    for given, said in ((Passkey.made(flags=SILENT), "This passkey cannot be added"), (Passkey.made(), "or adding it took too long")):
        conditional = (await options(tab)).ok() if given.flags == GOOD else conditional
        fields = {**form_of(offer, MADE), "credential": json.dumps(given.create(conditional))}
        await offer._go("POST", MADE, fields)
        assert (offer.status, said in offer.page.text) == (400, True), said
    await sent(tab, Passkey.made(flags=SILENT).create(plain))
    assert tab.place.startswith(PAGE)
    assert scene.person()["passkeys"] == 0


async def test_nothing_is_made_before_the_second_factor(scene: UpgradeScene) -> None:
    """A password that somebody has stolen makes no passkey."""
    ada = await scene.ada()
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    tab = await scene.sign_in(ada, can="conditional")
    assert tab.place.startswith("/ui/sign-in/second-factor")
    flow = tab.place.partition("flow=")[2]
    # The pages and their script know nobody yet.
    for method, place in (("GET", f"{UPGRADE}?flow={flow}"), ("POST", f"{UPGRADE}/options"), ("POST", UPGRADE)):
        answer = await tab.tabs.request(method, place, None if method == "GET" else {"flow": flow})
        assert answer.status in {303, 400, 403}, answer.body
        assert b"challenge" not in answer.body
    assert scene.people.rows("select from passkey_challenges") == []
    await tab.send(code=totp.now(), makes_passkeys="conditional")
    assert tab.place.startswith(UPGRADE)
    await scene.upgrade(tab)
    assert scene.person()["passkeys"] == 1


async def test_whom_the_table_offers_nothing_nothing_is_made_for(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    # In the pause, after "never", and with a passkey.
    for change in (
        "update users set passkey_offered_at = now() - interval '29 days'",
        "update users set passkey_offered_at = null, passkey_offers_ended_at = now()",
    ):
        scene.people.change(change)
        assert (await scene.sign_in(ada, can="conditional")).place == "/ui"
    scene.people.change("update users set passkey_offers_ended_at = null")
    scene.people.give_passkey(ada)
    assert (await scene.sign_in(ada, can="conditional")).place == "/ui"
    scene.people.change("delete from passkeys")
    # A browser that makes none by itself meets the page at once, and a word that is none is refused.
    assert (await scene.sign_in(ada, can="yes")).place.startswith(PAGE)
    tab = await scene.browser().tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    assert (await tab.send(password=PASSWORD, makes_passkeys="silently")).status == 400
    put(scene.postern.identity.passkeys, relying_party=Obstacle.INSECURE)
    scene.people.change("update users set passkey_offered_at = null")
    tab = await scene.browser().tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    assert (await tab.send(password=PASSWORD, makes_passkeys="conditional")).place == "/ui"


async def test_what_has_changed_meanwhile_counts(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    for change in (
        "update users set passkey_offered_at = now()",
        "update users set passkey_offers_ended_at = now()",
        "update flows set wanted = wanted - 'offers_passkey'",
    ):
        scene.people.change("update users set passkey_offered_at = null, passkey_offers_ended_at = null")
        tab = await scene.arrive(ada)
        given = Passkey.made(flags=SILENT).create((await options(tab)).ok())
        scene.people.change(change)
        assert (await options(tab)).status == 409
        await sent(tab, given)
        assert tab.place == "/ui", change
        assert scene.person()["passkeys"] == 0
    # A challenge counts once, also where its answer was refused, and no passkey is added with a proof that has grown old.
    scene.people.change("update users set passkey_offered_at = null, passkey_offers_ended_at = null")
    tab = await scene.arrive(ada)
    asked = (await options(tab)).ok()
    await sent(tab, Passkey.made(flags=SILENT, origin="https://elsewhere.example").create(asked))
    assert tab.place.startswith(PAGE)
    scene.people.change("update users set passkey_offered_at = null")
    await tab.open(f"{UPGRADE}?flow={tab.place.partition('flow=')[2]}")
    await sent(tab, Passkey.made(flags=SILENT).create(asked))
    assert scene.person()["passkeys"] == 0
    scene.people.change("update users set passkey_offered_at = null")
    tab = await scene.arrive(ada)
    asked = (await options(tab)).ok()
    scene.people.change("update sessions set proved_at = now() - interval '1 day'")
    assert (await options(tab)).status == 409
    await sent(tab, Passkey.made(flags=SILENT).create(asked))
    assert (tab.place, scene.person()["passkeys"]) == ("/ui", 0)


@pytest.mark.parametrize(
    "credential", ["", "{}", "[" * 400, json.dumps({"response": {"clientDataJSON": "e30", "attestationObject": "AA"}})]
)
async def test_what_is_no_passkey_leads_to_the_offer(scene: UpgradeScene, credential: str) -> None:
    tab = await scene.arrive(await scene.ada())
    await tab._go("POST", UPGRADE, {**form_of(tab, UPGRADE), "credential": credential})
    assert (tab.status, tab.place.startswith(PAGE)) == (200, True)


async def test_an_application_gets_its_answer(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    scene.allow(ada)
    tab = await scene.arrive(ada, scene.asking())
    fields = {**form_of(tab, UPGRADE), "credential": json.dumps(Passkey.made(flags=SILENT).create((await options(tab)).ok()))}
    # The same form twice makes one passkey, and each gets the answer.
    for _ in range(2):
        await tab._go("POST", UPGRADE, fields)
        assert left_for(tab, CALLBACK)["state"] == "a b&c"
    assert scene.person()["passkeys"] == 1


async def test_of_two_sign_ins_at_once_one_makes_a_passkey(scene: UpgradeScene) -> None:
    ada = await scene.ada()
    tabs = [await scene.arrive(ada) for _ in range(2)]
    forms = [
        {**form_of(tab, UPGRADE), "credential": json.dumps(Passkey.made(flags=SILENT).create((await options(tab)).ok()))} for tab in tabs
    ]
    await all_at_once(*(partial(tab.tabs.request, "POST", UPGRADE, form) for tab, form in zip(tabs, forms, strict=True)))
    assert scene.person()["passkeys"] == 1


async def test_another_browser_or_person_has_nothing_of_it(scene: UpgradeScene) -> None:
    tab = await scene.arrive(await scene.ada())
    eve = await scene.people.with_password(PASSWORD, "eve@example.org")
    other = await scene.sign_in(eve, can="conditional")
    mine, theirs = form_of(other, UPGRADE), form_of(tab, UPGRADE)
    assert (await other.tabs.request("GET", tab.place)).status == 400
    # Eve's browser with Ada's flow, and with her token; then Eve's own flow with the answer to Ada's challenge.
    for fields in ({**mine, "flow": theirs["flow"]}, theirs):
        assert (await other.tabs.request("POST", f"{UPGRADE}/options", fields)).status in {400, 403, 409}
        assert (await other.tabs.request("POST", UPGRADE, {**fields, "credential": "{}"})).status in {400, 403, 409}
    await sent(other, Passkey.made(flags=SILENT).create((await options(tab)).ok()))
    assert other.place.startswith(PAGE)
    assert scene.people.rows("select from passkeys") == []
