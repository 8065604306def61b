"""`/ui/second-factor`: two-step sign-in, turned on and off."""

import re
from uuid import uuid4

import pyotp
import pytest
import trio

from core.domain.record.events import Actor
from tests.http.browsing import Tabs, secret_on
from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.signing_in import PASSWORD

PAGE = "/ui/second-factor"
SET_UP = f"{PAGE}/set-up"
CODES = f"{PAGE}/backup-codes"


def app_of(home: AccountPagesScene) -> pyotp.TOTP:
    secret = secret_on(home.tab.shown.body)
    assert len(secret) == 32
    home.log.remember(secret)
    return pyotp.TOTP(secret)


def codes_on(body: bytes) -> list[str]:
    return re.findall(r"<code>([A-Z2-9]{4}-[A-Z2-9]{4})</code>", body.decode())


async def set_up(home: AccountPagesScene) -> pyotp.TOTP:
    await home.open(PAGE)
    await home.send()
    assert (home.tab.place, home.tab.status) == (SET_UP, 200)
    return app_of(home)


def is_on(home: AccountPagesScene) -> bool:
    return bool(home.people.rows("select from mfa_secrets where enabled_at is not null"))


async def test_it_is_turned_on_with_a_first_code(home: AccountPagesScene) -> None:
    app = await set_up(home)
    body = home.tab.shown.body
    assert b"<svg" in body
    assert b"otpauth://totp/Postern:ada" in body
    assert home.tab.page.inputs["code"]["autocomplete"] == "one-time-code"
    assert home.tab.page.inputs["code"]["inputmode"] == "numeric"
    assert not is_on(home)
    # A reload shows the same secret.
    await home.open(SET_UP)
    assert app_of(home).secret == app.secret
    code = app.now()
    await home.send(code=f"{code[:3]} {code[3:]}")
    assert home.tab.place.startswith(f"{CODES}?form=")
    codes = codes_on(home.tab.shown.body)
    home.log.remember(*codes)
    assert len(set(codes)) == 10
    assert is_on(home)
    # The page shows the codes once, and another session nothing at all.
    place = home.tab.place
    assert codes_on((await home.open(place)).shown.body) == []
    other = await home.browser(home.elsewhere()).tab().open(place)
    assert (other.place, codes_on(other.shown.body)) == (PAGE, [])
    state = await home.open(PAGE)
    assert "On since" in state.page.text
    assert "10 left" in state.page.text
    # The shown codes work.
    caller = await home.caller()
    await home.postern.identity.reauthentication.with_code(caller, codes[0], home.visitor, Actor(caller.user))
    # One code is used, so this page says no more of them.
    assert (await home.open(place)).place == PAGE


async def test_a_wrong_first_code_brings_the_same_secret_back(home: AccountPagesScene) -> None:
    app = await set_up(home)
    for wrong in ("", "abc", "000000" if app.now() != "000000" else "111111", "1" * 50):
        await home.send(code=wrong)
        assert home.tab.status == 400
        assert home.tab.page.inputs["code"]["aria-invalid"] == "true"
        assert app_of(home).secret == app.secret
    assert not is_on(home)
    await home.send(code=app.now())
    assert is_on(home)


async def test_two_clicks_turn_it_on_once_and_show_the_codes(home: AccountPagesScene) -> None:
    app = await set_up(home)
    fields = {**home.form.fields, "code": app.now()}

    async def send() -> str | None:
        return (await home.tabs.request("POST", SET_UP, fields)).header("location")

    first, second = await all_at_once(send, send)
    assert first == second == f"{CODES}?form={fields['form']}"
    assert len(codes_on((await home.open(first)).shown.body)) == 10
    assert len(home.audited("security.mfa.enabled")) == 1


async def test_codes_of_a_page_that_was_open_for_long_are_new_ones_and_shown_to_nobody(home: AccountPagesScene) -> None:
    """Tries an id from long ago, an id from the far future, and an id that has no time."""
    for form in ("0199d3a0-0000-7000-8000-000000000001", "ffffffff-ffff-7fff-8fff-ffffffffffff", str(uuid4())):
        app = await set_up(home)
        home.people.change("update rate_limit_buckets set tokens = 10")
        await home.tabs.request("POST", SET_UP, {**home.form.fields, "code": app.now(), "form": form})
        assert is_on(home)
        assert (await home.open(f"{CODES}?form={form}")).place == PAGE
        home.people.change("delete from mfa_secrets")
    assert (await home.open(CODES)).place == PAGE
    assert (await home.open(f"{CODES}?form=x")).status == 400


async def test_a_set_up_that_was_left_begins_again(home: AccountPagesScene) -> None:
    await set_up(home)
    home.people.change("update mfa_secrets set created_at = created_at - interval '11 minutes'")
    await home.open(SET_UP)
    assert home.tab.place == f"{PAGE}?done=expired"
    assert "Start again" in home.tab.page.text
    # The same without a set-up.
    home.people.change("delete from mfa_secrets")
    assert (await home.open(SET_UP)).place == f"{PAGE}?done=expired"


async def test_a_wrong_code_for_one_that_was_left_says_to_begin_again(home: AccountPagesScene) -> None:
    await home.open(f"{PAGE}?to=/ui/devices")
    await home.send()
    home.people.change("update mfa_secrets set created_at = created_at - interval '11 minutes'")
    await home.send(code="abc")
    assert home.tab.place == f"{PAGE}?done=expired&to=/ui/devices"
    assert "Start again" in home.tab.page.text
    # The button leads to the page that the person came from.
    assert home.form.fields["to"] == "/ui/devices"
    assert not is_on(home)


async def test_a_set_up_is_no_other_sessions(home: AccountPagesScene) -> None:
    """The holder of the other session may be a thief, who would learn the secret, or make the owner scan the thief's secret."""
    app = await set_up(home)
    elsewhere = home.browser(home.elsewhere()).tab()
    assert (await elsewhere.open(SET_UP)).place == f"{PAGE}?done=expired"
    assert app.secret.encode() not in elsewhere.shown.body
    form = home.form
    await elsewhere.open(PAGE)
    await elsewhere.send(len(elsewhere.page.forms) - 1)
    assert elsewhere.place == SET_UP
    await home.send(code=app.now())
    assert home.tab.place == f"{PAGE}?done=expired"
    assert (await home.open(SET_UP)).place == f"{PAGE}?done=expired"
    assert form.action == SET_UP
    assert not is_on(home)


async def test_one_that_is_on_is_not_set_up_again(home: AccountPagesScene) -> None:
    await home.open(PAGE)
    form = home.form
    await home.has_second_factor()
    before = home.people.rows("select * from mfa_secrets")
    answer = await home.tabs.request("POST", PAGE, form.fields)
    assert (answer.status, answer.header("location")) == (303, PAGE)
    assert home.people.rows("select * from mfa_secrets") == before
    assert (await home.open(SET_UP)).place == f"{PAGE}?done=expired"


async def test_too_many_first_codes_wait(home: AccountPagesScene) -> None:
    await set_up(home)
    answers = [await home.tabs.request("POST", SET_UP, {**home.form.fields, "code": "000000"}) for _ in range(11)]
    assert answers[-1].status == 429


async def test_new_backup_codes(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    await home.open(f"{CODES}/renew")
    assert "All previous backup codes stop working" in home.tab.page.text
    fields = home.form.fields
    before = home.people.rows("select digest from backup_codes order by digest")
    await home.send()
    codes = codes_on(home.tab.shown.body)
    home.log.remember(*codes)
    after = home.people.rows("select digest from backup_codes order by digest")
    assert (len(codes), len(after)) == (10, 10)
    assert before != after
    # A form that is sent twice makes the same codes, so the codes that were shown work.
    answer = await home.tabs.request("POST", f"{CODES}/renew", fields)
    assert "Your backup codes were already shown" in (await home.open(answer.header("location") or "")).page.text
    assert home.people.rows("select digest from backup_codes order by digest") == after


async def test_backup_codes_are_shown_once(home: AccountPagesScene) -> None:
    """A reload says so, also after another page and in another tab, and offers new ones."""
    await home.has_second_factor()
    await home.open(f"{CODES}/renew")
    await home.send()
    place, codes = home.tab.place, codes_on(home.tab.shown.body)
    home.log.remember(*codes)
    assert len(codes) == 10
    tab = home.tabs.tab()
    for between in (None, PAGE, "/ui"):
        if between is not None:
            await home.open(between)
        await tab.open(place)
        assert (tab.status, codes_on(tab.shown.body)) == (200, [])
        assert "Backup codes are shown only once" in tab.page.text
        assert not any(code in tab.shown.body.decode() for code in codes)
    shown = "select details ? 'form' as named from mfa_events where name = 'backup_codes_shown'"
    assert home.people.rows(shown) == [{"named": True}]
    # The offer leads to new ones, and the lost ones end.
    (renew,) = [link for link in tab.page.links if link == f"{CODES}/renew"]
    await home.open(renew)
    await home.send()
    others = codes_on(home.tab.shown.body)
    home.log.remember(*others)
    assert (len(others), set(others) & set(codes)) == (10, set())


async def test_of_many_requests_for_them_at_once_one_gets_the_codes(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    await home.open(f"{CODES}/renew")
    answer = await home.tabs.request("POST", f"{CODES}/renew", home.form.fields)
    got: list[int] = []

    async def ask() -> None:
        body = (await home.tabs.request("GET", answer.header("location") or "")).body
        home.log.remember(*codes_on(body))
        got.append(len(codes_on(body)))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert sorted(got) == [0, 0, 0, 0, 10]


async def test_no_backup_codes_without_a_second_factor(home: AccountPagesScene) -> None:
    await home.open(f"{CODES}/renew")
    await home.send()
    assert home.tab.place == PAGE
    assert home.people.rows("select from backup_codes") == []


async def test_it_is_turned_off_after_being_asked(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    await home.open(f"{PAGE}/turn-off")
    assert "Turn off two-step sign-in?" in home.tab.page.text
    assert is_on(home)
    fields = home.form.fields
    await home.send()
    assert home.tab.place == f"{PAGE}?done=off"
    assert not is_on(home)
    again = await home.tabs.request("POST", f"{PAGE}/turn-off", fields)
    assert again.header("location") == f"{PAGE}?done=off"
    assert len(home.audited("security.mfa.disabled")) == 1


@pytest.mark.parametrize("path", [f"{PAGE}/turn-off", f"{CODES}/renew"])
async def test_without_a_fresh_code_it_is_asked_for_first(path: str, home: AccountPagesScene) -> None:
    app = await home.has_second_factor()
    await home.open(path)
    form = home.form
    home.grow_old()
    wanted = f"/ui/prove?to={path}&need=second_factor"
    answer = await home.tabs.request("POST", path, form.fields)
    assert (answer.status, answer.header("location")) == (303, wanted)
    assert is_on(home)
    await home.open(path)
    assert home.tab.place == wanted
    await home.send(code=app.now())
    assert (home.tab.place, home.tab.status) == (path, 200)


async def test_without_a_fresh_proof_it_is_asked_for_before_a_first_second_factor_is_set_up(home: AccountPagesScene) -> None:
    """The page that the person came from is not lost on the way."""
    await home.has_password(PASSWORD)
    back = f"{PAGE}?to=/ui/organizations/acme"
    await home.open(back)
    home.grow_old()
    await home.send()
    assert home.tab.place.startswith("/ui/prove?")
    assert home.people.rows("select from mfa_secrets") == []
    await home.send(password=PASSWORD)
    assert home.tab.place == back
    await home.send()
    assert home.tab.place == f"{SET_UP}?to=/ui/organizations/acme"
    code, form = app_of(home).now(), home.form
    home.grow_old()
    answer = await home.tabs.request("POST", SET_UP, {**form.fields, "code": code})
    assert (answer.header("location") or "").startswith("/ui/prove?")
    assert not is_on(home)
    # The secret is not shown before that either.
    await home.open(SET_UP)
    assert home.tab.place.startswith("/ui/prove?")
    await home.send(password=PASSWORD)
    assert home.tab.place == SET_UP
    await home.send(code=code)
    assert is_on(home)
    home.log.remember(*codes_on(home.tab.shown.body))


async def test_a_person_without_a_password_signs_in_again_before_a_first_second_factor(home: AccountPagesScene) -> None:
    await home.open(PAGE)
    home.grow_old()
    await home.send()
    assert home.tab.place.startswith("/ui/sign-in")
    assert home.people.rows("select from mfa_secrets") == []


async def test_a_second_factor_of_another_person_is_none_of_this(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    eve = Tabs(home.client)
    eve.cookies = home.browser(home.people.add("eve@example.org")).cookies
    tab = await eve.tab().open(PAGE)
    assert "Set up two-step sign-in" in tab.page.text


def require(home: AccountPagesScene, slug: str, *, grace_days: int = 0) -> None:
    """An organization of Ada's that has required a second factor for a day."""
    tenant = home.tenants.add(slug)
    home.tenants.join(home.ada, tenant)
    home.people.change(
        "update all_organizations set mfa_required_since = now() - interval '1 day', mfa_grace_days = %s where id = %s",
        grace_days,
        tenant.id,
    )
    home.people.change("update memberships set created_at = now() - interval '1 year'")


async def test_a_member_reads_which_organization_requires_it_and_until_when(home: AccountPagesScene) -> None:
    require(home, "acme")
    require(home, "globex", grace_days=9)
    home.tenants.join(home.ada, home.tenants.add("initech"))
    for page, words in (
        ("/ui", "Acme requires two-step sign-in. You cannot access the organization until you set it up"),
        (PAGE, "Globex requires two-step sign-in. Set it up by "),
        ("/ui/organizations/acme", "You cannot access the organization until you set it up"),
        ("/ui/organizations/globex", "Set it up by "),
    ):
        assert words in (await home.open(page)).page.text
    assert "Initech" not in (await home.open(PAGE)).page.text
    assert "requires" not in (await home.open("/ui/organizations/initech")).page.text
    await home.has_second_factor()
    for page in ("/ui", PAGE, "/ui/organizations/acme"):
        assert "requires" not in (await home.open(page)).page.text
    assert "because they require two-step sign-in: Acme Globex" in (await home.open(f"{PAGE}/turn-off")).page.text


async def test_an_organization_that_is_closed_leads_to_the_set_up_and_back(home: AccountPagesScene) -> None:
    require(home, "acme")
    await home.open("/ui/organizations/acme")
    assert f"{PAGE}?to=/ui/organizations/acme" in home.tab.page.links
    await home.open(f"{PAGE}?to=/ui/organizations/acme")
    await home.send()
    assert home.tab.place == f"{SET_UP}?to=/ui/organizations/acme"
    assert "/ui/organizations/acme" in home.tab.page.links
    await home.send(code=app_of(home).now())
    home.log.remember(*codes_on(home.tab.shown.body))
    assert "/ui/organizations/acme" in home.tab.page.links
    assert f"{PAGE}?to=/ui/organizations/acme" not in (await home.open("/ui/organizations/acme")).page.links
    # A person whose second factor is on goes straight to the wanted page.
    form = (await home.open("/ui/profile")).page.forms[0]
    answer = await home.tabs.request("POST", PAGE, {"form_token": form.fields["form_token"], "to": "/ui/devices"})
    assert answer.header("location") == "/ui/devices"


async def test_it_leads_back_to_no_other_site(home: AccountPagesScene) -> None:
    for place in ("https://evil.example", "//evil.example", "/auth/token", "/ui\\evil"):
        await home.open(f"{PAGE}?to={place}")
        assert home.form.fields["to"] == "/ui"
