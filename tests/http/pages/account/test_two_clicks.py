"""After a double click, a browser drops the first answer and shows the second. So both answers must tell the result, whether the requests
run one after the other or at once.

Passwords, passkeys, invitations, sessions and the set-up of two-step sign-in have such tests in their own files.
"""

from collections.abc import Mapping

import pyotp
import pytest

from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import COOKIE, AccountPagesScene

PASSWORD = "the moon over the harbour"


async def answers(home: AccountPagesScene, place: str, fields: Mapping[str, str], *, at_once: bool) -> set[tuple[int, str | None]]:
    """The answers to both clicks. A browser that drops an answer drops its cookies, too."""
    cookies = dict(home.tabs.cookies)

    async def send() -> tuple[int, str | None]:
        home.tabs.cookies = dict(cookies)
        answer = await home.tabs.request("POST", place, fields)
        return answer.status, answer.header("location")

    return {*await all_at_once(send, send)} if at_once else {await send(), await send()}


@pytest.fixture(params=[False, True], ids=["one_after_the_other", "at_once"])
def at_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_signing_out(home: AccountPagesScene, at_once: bool) -> None:
    tab = await home.open("/ui")
    form = tab.page.forms[0]
    assert await answers(home, form.action, form.fields, at_once=at_once) == {(303, "/ui/signed-out")}
    assert not home.lives(home.ada)
    # A form from another session does not work in this browser.
    home.tabs.cookies = {COOKIE: home.postern.foundation.secrets.token().reveal()}
    assert await answers(home, form.action, form.fields, at_once=at_once) == {(403, None)}


async def test_signing_out_at_an_applications_request(home: AccountPagesScene, at_once: bool) -> None:
    await home.open("/oauth/logout")
    form = home.form
    assert await answers(home, form.action, {**form.fields, "answer": "yes"}, at_once=at_once) == {(303, "/ui/signed-out")}
    assert not home.lives(home.ada)


async def test_a_device(home: AccountPagesScene, at_once: bool) -> None:
    device = home.device()
    await home.open(f"/ui/devices/{device}")
    fields = {**home.form.fields, "name": "Laptop"}
    assert await answers(home, home.form.action, fields, at_once=at_once) == {(303, f"/ui/devices/{device}?done=renamed")}
    await home.open(f"/ui/devices/{device}/revoke")
    assert await answers(home, home.form.action, home.form.fields, at_once=at_once) == {(303, "/ui/devices?done=revoked")}


async def test_all_other_sessions(home: AccountPagesScene, at_once: bool) -> None:
    home.elsewhere()
    await home.open("/ui/sessions/end-others")
    assert await answers(home, home.form.action, home.form.fields, at_once=at_once) == {(303, "/ui/sessions?done=others")}


async def test_a_language(home: AccountPagesScene, at_once: bool) -> None:
    await home.open("/ui/profile")
    fields = {**home.form.fields, "language": "de"}
    assert await answers(home, "/ui/profile/language", fields, at_once=at_once) == {(303, "/ui/profile?done=language")}


async def test_an_organization(home: AccountPagesScene, at_once: bool) -> None:
    acme = home.tenants.add("acme")
    home.tenants.join(home.ada, acme)
    await home.open("/ui/choose-organization")
    fields = {**home.form.fields, "organization": "acme"}
    assert await answers(home, home.form.action, fields, at_once=at_once) == {(303, "/ui")}


async def test_a_fresh_proof(home: AccountPagesScene, at_once: bool) -> None:
    """A code works once. The second form finds that the first has used it."""
    app = await home.has_second_factor()
    await home.has_password(PASSWORD)
    for need, fields in (("second_factor", {"code": app.now()}), ("account", {"password": PASSWORD})):
        home.people.change("update sessions set proved_at = now() - interval '1 hour'")
        if need == "second_factor":
            home.people.change("update sessions set second_factor_at = now() - interval '1 hour'")
        await home.open(f"/ui/prove?to=/ui/sessions&need={need}")
        place = f"/ui/prove?to=/ui/sessions&need={need}"
        given = await answers(home, home.form.action, {**home.form.fields, **fields}, at_once=at_once)
        assert given <= {(303, place), (303, "/ui/sessions")}


async def test_two_step_sign_in_off(home: AccountPagesScene, at_once: bool) -> None:
    app: pyotp.TOTP = await home.has_second_factor()
    home.grow_old()
    await home.open("/ui/second-factor/turn-off")
    await home.send(code=app.now())
    assert home.tab.place == "/ui/second-factor/turn-off"
    assert await answers(home, home.form.action, home.form.fields, at_once=at_once) == {(303, "/ui/second-factor?done=off")}
