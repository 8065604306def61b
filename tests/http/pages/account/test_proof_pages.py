"""`/ui/prove`: the person gives a fresh proof, and comes back."""

import pytest

from core.domain.errors import Unauthorized
from core.domain.identity.proofs import StepUp
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.people import BASE_URL
from tests.http.postbox import Postbox, link_in, token_in

PASSWORD = "the moon over the harbour"
EMAIL = "/ui/profile/email"
OFF = "/ui/second-factor/turn-off"


async def test_whoever_has_proved_it_goes_on_at_once(home: AccountPagesScene) -> None:
    for need in ("account", "second_factor", "", "x"):
        assert (await home.open(f"/ui/prove?to={EMAIL}&need={need}")).place == EMAIL


async def test_no_other_site_is_reached(home: AccountPagesScene) -> None:
    for place in ("https://evil.example/", "//evil.example", "/api/user", "/ui\\evil", "", "javascript:1"):
        assert (await home.open(f"/ui/prove?to={place}")).place == "/ui"
    await home.has_password(PASSWORD)
    home.grow_old()
    await home.open(f"/ui/prove?to={EMAIL}")
    answer = await home.tabs.request("POST", "/ui/prove", {**home.form.fields, "to": "//evil.example", "password": PASSWORD})
    assert answer.header("location") == "/ui/prove?to=/ui&need=account"


async def test_a_wrong_password_brings_the_page_back_and_is_logged(home: AccountPagesScene) -> None:
    home.log.remember(PASSWORD)
    await home.has_password(PASSWORD)
    home.grow_old()
    await home.open(EMAIL)
    assert home.tab.page.inputs["password"]["autocomplete"] == "current-password"
    for wrong in ("mistyped", ""):
        await home.send(password=wrong)
        assert (home.tab.place, home.tab.status) == ("/ui/prove", 400)
        assert home.tab.page.inputs["password"]["aria-invalid"] == "true"
    assert [row["reason"] for row in home.people.rows("select reason from login_events")] == ["wrong_password"]
    await home.send(password=PASSWORD)
    assert (home.tab.place, home.tab.status) == (EMAIL, 200)
    assert [entry["details"]["method"] for entry in home.audited("security.session.reauthenticated")] == ["password"]


async def test_a_wrong_code_brings_the_page_back_and_is_logged(home: AccountPagesScene) -> None:
    app = await home.has_second_factor()
    home.grow_old()
    await home.open(OFF)
    assert home.tab.page.inputs["code"]["autocomplete"] == "one-time-code"
    for wrong in ("000000" if app.now() != "000000" else "111111", ""):
        await home.send(code=wrong)
        assert home.tab.status == 400
        assert home.tab.page.inputs["code"]["aria-invalid"] == "true"
    assert {row["reason"] for row in home.people.rows("select reason from login_events")} == {"wrong_code"}
    await home.send(code=app.now())
    assert home.tab.place == OFF


async def test_too_many_codes_wait(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    home.grow_old()
    await home.open(OFF)
    answers = [await home.tabs.request("POST", "/ui/prove", {**home.form.fields, "code": "000000"}) for _ in range(11)]
    assert answers[-1].status == 429
    assert b"Too many" in answers[-1].body
    # Another person in their name may have used the tries up. A sign-in has tries of its own.
    again = b'href="/ui/sign-in?to=/ui/second-factor/turn-off&amp;again=yes"'
    assert [again in answer.body for answer in answers] == [False] * 10 + [True]


async def test_where_both_are_missing_the_code_comes_first(home: AccountPagesScene) -> None:
    """The second factor was turned on after the session's sign-in, so the session needs both, code and password."""
    await home.has_password(PASSWORD)
    app = await home.has_second_factor()
    home.grow_old()
    await home.open(EMAIL)
    assert "code" in home.tab.page.inputs
    await home.send(code=app.now())
    assert home.tab.place == f"/ui/prove?to={EMAIL}&need=account"
    assert "password" in home.tab.page.inputs
    await home.send(password=PASSWORD)
    assert (home.tab.place, home.tab.status) == (EMAIL, 200)


async def test_whoever_has_neither_signs_in_again(home: AccountPagesScene) -> None:
    home.grow_old()
    answer = await home.tabs.request("GET", f"/ui/prove?to={EMAIL}&need=account")
    assert (answer.status, answer.header("location")) == (303, f"/ui/sign-in?to={EMAIL}&again=yes")


async def test_a_session_that_ends_meanwhile(home: AccountPagesScene) -> None:
    """The session ends between the look-up of the caller and that of the proofs. The page asks nothing any more."""
    caller = await home.caller()
    home.people.change("update sessions set revoked_at = now()")
    with pytest.raises(Unauthorized):
        await home.postern.identity.reauthentication.missing(caller, StepUp.ACCOUNT)


async def test_whoever_forgot_the_password_gets_the_ordinary_mail_and_no_proof_by_it(home: AccountPagesScene) -> None:
    await home.has_password(PASSWORD)
    home.grow_old()
    await home.open(EMAIL)
    forms = [form.action for form in home.tab.page.forms]
    assert "Forgot your password?" in home.tab.page.text
    # The mailed code is for people who have nothing else.
    assert "/ui/prove/mail" not in forms
    await home.tab.send(forms.index("/ui/prove/forgotten"))
    assert home.tab.place == f"/ui/prove?to={EMAIL}&need=account&reset=yes"
    assert "A link to choose a new password was sent to your email address" in home.tab.page.text
    (mail,) = await Postbox(home.postern).empty()
    home.log.remember(token_in(link_in(mail)))
    assert (mail.to, mail.subject) == ("ada@example.org", "Choose a new password")
    # The page still asks: the mail alone proves nothing.
    assert (await home.open(EMAIL)).place.startswith("/ui/prove")
    # The reset is that of every forgotten password, and ends the session.
    tab = await home.tabs.tab().open(link_in(mail).removeprefix(BASE_URL))
    again = "another moon over the harbour"
    await tab.send(new_password=again, repeated=again)
    home.log.remember(again)
    assert (await home.open(EMAIL)).place.startswith("/ui/sign-in")


async def test_where_a_code_is_asked_for_nobody_can_have_forgotten_it(home: AccountPagesScene) -> None:
    await home.has_second_factor()
    home.grow_old()
    await home.open(OFF)
    assert "Forgot your password?" not in home.tab.page.text
