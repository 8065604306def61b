"""`/ui/passkeys`: passkeys are listed, added, named, removed, used as the second step and as a fresh proof."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from core.domain.identity.passkeys import Obstacle
from ops.browser.page_reader import PageForm
from tests.authenticator import BACKED_UP, ELIGIBLE, GOOD, Passkey
from tests.changed_fields import put
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import AccountPagesScene, is_account_page
from tests.http.signing_in import PASSWORD

PAGE = "/ui/passkeys"
ADD = f"{PAGE}/add"
SECOND_FACTOR, BY_PASSKEYS = "/ui/second-factor", "/ui/second-factor/passkeys"
PROVE = "/ui/prove/passkey"


def form_of(tab: Tab, action: str) -> PageForm:
    (form,) = [one for one in tab.page.forms if one.action == action]
    return form


async def options(home: AccountPagesScene, tab: Tab, action: str) -> Any:
    answer = await home.tabs.request("POST", f"{action}/options", form_of(tab, action).fields)
    assert answer.status == 200, answer.body
    return answer.json()


async def added(home: AccountPagesScene, passkey: Passkey | None = None, **fields: str) -> Passkey:
    passkey = passkey or Passkey.made()
    tab = await home.open(ADD)
    assert tab.place == ADD
    credential = json.dumps(passkey.create(await options(home, tab, ADD)))
    await tab._go("POST", ADD, {**form_of(tab, ADD).fields, "credential": credential, **fields})
    assert tab.place == f"{PAGE}?done=added", tab.page.text
    return passkey


def kept(home: AccountPagesScene) -> list[UUID]:
    return [row["id"] for row in home.people.rows("select id from passkeys order by id")]


async def test_a_name_that_we_gave_is_told_in_the_language_of_the_reader(home: AccountPagesScene) -> None:
    await added(home)
    home.tabs.language = "de"
    for place in ("", f"/{kept(home)[0]}", f"/{kept(home)[0]}/remove"):
        assert "Firefox unter Linux" in (await home.open(f"{PAGE}{place}")).page.text, place


async def test_the_page_says_which_device_has_which(home: AccountPagesScene) -> None:
    await added(home, Passkey.made(aaguid=UUID("ea9b8d66-4d01-1d21-3ce4-b6b48cb575d4"), flags=GOOD | ELIGIBLE | BACKED_UP), name="One")
    await added(home, Passkey.made(aaguid=UUID("fdb141b2-5d84-443e-8a35-4698c205a502"), flags=GOOD | ELIGIBLE), name="Two")
    await added(home, name="Three")
    said = (await home.open(PAGE)).page.text
    assert "Google Password Manager. Synced across your devices" in said
    assert "KeePassXC. On one device so far" in said
    assert "Three On one device only Created on Firefox on Linux," in said
    for number, words in enumerate(
        ("Passkey provider Google Password Manager Added Firefox on Linux,", "Passkey provider KeePassXC", "On one device only")
    ):
        assert words in (await home.open(f"{PAGE}/{kept(home)[number]}")).page.text
    assert "Passkey provider" not in (await home.open(f"{PAGE}/{kept(home)[2]}")).page.text


async def test_one_is_added_looked_at_named_and_removed(home: AccountPagesScene) -> None:
    empty = await home.open(PAGE)
    assert is_account_page(empty.shown)
    assert "No passkeys" in empty.page.text
    assert "Passkeys Add a passkey" in (await home.open("/ui")).page.text
    await added(home)
    await added(home, Passkey.made(flags=GOOD | ELIGIBLE), name=(name := "مفتاح"))
    listed = (await home.open(f"{PAGE}?done=added")).page.text
    assert "Passkey added" in listed
    assert "Firefox on Linux" in listed
    assert "Not used yet Synced" in listed
    first, second = kept(home)
    shown = (await home.open(f"{PAGE}/{second}")).page.text
    assert f"Passkey: \u2068{name}\u2069" in shown
    assert "your passkey provider may sync it" in shown
    assert "On one device only" in (await home.open(f"{PAGE}/{first}")).page.text
    await home.send(name="Laptop")
    assert home.tab.place == f"{PAGE}/{first}?done=renamed"
    await home.send(name=" ")
    assert home.tab.status == 400
    asked = await home.open(f"{PAGE}/{first}/remove")
    assert "Remove Laptop?" in asked.page.text
    await home.send()
    assert home.tab.place == f"{PAGE}?done=removed"
    assert kept(home) == [second]
    # The last way to sign in stays, and the page says why.
    await home.open(f"{PAGE}/{second}/remove")
    await home.send()
    assert home.tab.status == 400
    assert "This is your only sign-in method" in home.tab.page.text
    token = home.form.fields
    unknown = f"{PAGE}/{uuid4()}"
    for place in (unknown, f"{unknown}/remove"):
        assert (await home.open(place)).status == 404
    assert (await home.tabs.request("POST", unknown, token)).status == 404


async def test_two_clicks_add_once_and_remove_once(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    tab = await home.open(ADD)
    passkey = Passkey.made()
    fields = {**form_of(tab, ADD).fields, "credential": json.dumps(passkey.create(await options(home, tab, ADD)))}

    def send(place: str) -> Callable[[], Awaitable[str | None]]:
        async def sent() -> str | None:
            return (await home.tabs.request("POST", place, fields)).header("location")

        return sent

    assert {*await all_at_once(send(ADD), send(ADD))} == {await send(ADD)()} == {f"{PAGE}?done=added"}
    (id_,) = kept(home)
    home.people.change("update passkeys set created_at = created_at - interval '11 seconds'")
    late = await home.tabs.request("POST", ADD, fields)
    assert (late.status, b"was already added" in late.body) == (400, True)
    remove = f"{PAGE}/{id_}/remove"
    assert {*await all_at_once(send(remove), send(remove))} == {await send(remove)()} == {f"{PAGE}?done=removed"}
    assert kept(home) == []
    assert len(home.audited("security.passkey.removed")) == 1


async def test_what_is_none_brings_the_form_back(home: AccountPagesScene) -> None:
    tab = await home.open(ADD)
    fields = form_of(tab, ADD).fields
    for more, said in (
        ({"credential": ""}, "This passkey was not accepted"),
        ({"credential": json.dumps(Passkey.made(flags=1).create(await options(home, tab, ADD)))}, "This passkey cannot be added"),
        ({"credential": json.dumps(Passkey.made().create({"user": {"id": "AA"}, "challenge": "AA"}))}, "or adding it took too long"),
        ({"credential": json.dumps(Passkey.made().create(await options(home, tab, ADD))), "name": "x" * 101}, "at most 100 characters"),
    ):
        answer = await home.tabs.request("POST", ADD, {**fields, **more})
        assert answer.status == 400
        assert said in answer.body.decode()
    assert kept(home) == []


async def test_a_fresh_proof_comes_first(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    tab = await home.open(ADD)
    fields = form_of(tab, ADD).fields
    home.grow_old()
    assert (await home.open(ADD)).place.startswith("/ui/prove?to=/ui/passkeys/add")
    answer = await home.tabs.request("POST", f"{ADD}/options", fields)
    assert (answer.status, (answer.header("location") or "").startswith("/ui/prove")) == (303, True)
    assert (await home.tabs.request("POST", ADD, fields)).status == 303


async def test_they_become_the_second_step(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    assert BY_PASSKEYS not in (await home.open(SECOND_FACTOR)).page.links
    passkey = await added(home)
    assert BY_PASSKEYS in (await home.open(SECOND_FACTOR)).page.links
    assert f"{BY_PASSKEYS}?to=/ui/devices" in (await home.open(f"{SECOND_FACTOR}?to=/ui/devices")).page.links
    await home.open(f"{BY_PASSKEYS}?to=/ui/devices")
    sent = home.form
    await home.send()
    assert "Your backup codes" in home.tab.page.text
    assert "/ui/devices" in home.tab.page.links
    # After a double click, the same form makes the same codes, which are shown once. Another form says that two-step sign-in is on.
    home.people.change("update sessions set second_factor_at = now()")
    assert "Your backup codes were already shown" in (await home.tab._go("POST", sent.action, sent.fields)).page.text
    other = {**sent.fields, "form": str(home.postern.foundation.ids.new())}
    assert (await home.tabs.request("POST", sent.action, other)).status == 400
    assert "Method Passkey" in (await home.open(SECOND_FACTOR)).page.text
    assert "Two-step sign-in" in (await home.open(PAGE)).page.text
    # With a fresh proof, an app may be added beside them.
    home.grow_old()
    await home.open(SECOND_FACTOR)
    await home.send()
    assert home.tab.place.startswith("/ui/prove?to=/ui/second-factor")
    await used(home, passkey)
    assert home.tab.place == SECOND_FACTOR
    await home.send()
    assert home.tab.place == f"{SECOND_FACTOR}/set-up"
    # Without a confirmation in time, the page asks for the proof once more.
    home.grow_old()
    await home.send(code="000000")
    assert home.tab.place.startswith("/ui/prove?to=/ui/second-factor/set-up")


async def test_a_page_that_was_open_for_long_turns_them_on_and_sent_again_shows_nothing(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    await added(home)
    await home.open(BY_PASSKEYS)
    old = {**home.form.fields, "form": "0199d3a0-0000-7000-8000-000000000001"}
    assert (await home.tab._go("POST", home.form.action, old)).place == SECOND_FACTOR
    codes = home.people.rows("select digest from backup_codes order by digest")
    assert len(codes) == 10
    home.people.change("update sessions set second_factor_at = now()")
    again = await home.tabs.request("POST", BY_PASSKEYS, old)
    assert (again.status, again.header("location")) == (400, None)
    assert home.people.rows("select digest from backup_codes order by digest") == codes


async def used(home: AccountPagesScene, passkey: Passkey) -> None:
    """Uses the passkey on the page that asks for a fresh proof."""
    tab = home.tab
    credential = json.dumps(passkey.get(await options(home, tab, PROVE)))
    await tab._go("POST", PROVE, {**form_of(tab, PROVE).fields, "credential": credential})


async def test_it_is_a_fresh_proof_of_both(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    passkey = await added(home)
    (id_,) = kept(home)
    home.grow_old()
    tab = await home.open(f"{PAGE}/{id_}/remove")
    assert "enter your password to continue" in tab.page.text
    # A wrong answer shows the page again.
    wrong = {**form_of(tab, PROVE).fields, "credential": json.dumps(Passkey.made().get(await options(home, tab, PROVE)))}
    assert (await home.tabs.request("POST", PROVE, wrong)).status == 400
    await used(home, passkey)
    assert home.tab.place == f"{PAGE}/{id_}/remove"
    (session,) = home.people.rows("select proved_at, second_factor_at from sessions where id = %s", home.ada.session)
    assert session["proved_at"] == session["second_factor_at"]
    assert [row["details"]["method"] for row in home.people.rows("select details from audit_log where action like '%%reauth%%'")] == [
        "passkey"
    ]
    # With the second step on, the page asks for a passkey; a backup code is enough, too.
    await home.open(BY_PASSKEYS)
    await home.send()
    home.grow_old()
    assert "or enter a backup code" in (await home.open(f"{PAGE}/{id_}/remove")).page.text
    await used(home, passkey)
    assert "two-step sign-in is turned off" in home.tab.page.text
    await home.send()
    assert kept(home) == []
    assert "Set up two-step sign-in" in (await home.open(SECOND_FACTOR)).page.text


async def test_whoever_has_nothing_else_proves_it_with_a_passkey_or_signs_in_again(home: AccountPagesScene) -> None:
    passkey = await added(home)
    await added(home)
    (id_, _) = kept(home)
    home.grow_old()
    tab = await home.open(f"{PAGE}/{id_}/remove")
    assert "use a passkey to continue." in tab.page.text
    assert [one.action for one in tab.page.forms][1:] == [PROVE]
    assert any(link.startswith("/ui/sign-in?to=") for link in tab.page.links)
    await used(home, passkey)
    assert home.tab.place == f"{PAGE}/{id_}/remove"


@pytest.mark.parametrize("obstacle", list(Obstacle))
async def test_where_there_are_none_the_page_says_why(home: AccountPagesScene, obstacle: Obstacle) -> None:
    await added(home)
    (id_,) = kept(home)
    put(home.postern.identity.passkeys, relying_party=obstacle)
    for place in (PAGE, ADD):
        shown = await home.open(place)
        assert "Passkeys are not available here" in shown.page.text
        assert [one.action for one in shown.page.forms] == ["/ui/sign-out"]
    assert ADD not in (await home.open(PAGE)).page.links
    # The page does not ask for a passkey.
    home.grow_old()
    assert (await home.open(f"{PAGE}/{id_}/remove")).place.startswith("/ui/sign-in/")
