"""A proof is as old as its provider says, and a session ends when it says. A provider that says nothing proves who came, and not when."""

from time import time
from typing import Any, Final

import pytest
import trio

from core.domain.errors import RateLimited
from core.domain.identity.account_mails import MAILED_CODES, MOST_CODE_TRIES, CodeRefused
from core.domain.identity.accounts import ACCOUNT_MAILS
from core.domain.identity.devices import Client
from core.domain.mail import Mail
from core.domain.secrets import Secret, Token
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.federation.arriving import left, told
from tests.http.people import Person
from tests.http.postbox import Postbox, code_in
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.http.upstream.scene import ADA, UpstreamScene

LONG_AGO: Final = 9 * 3600
PASSWORD_PAGE: Final = "/ui/password"
HERS: Final = f"user_id = (select id from users where email = '{ADA}')"


@pytest.fixture
def postbox(scene: UpstreamScene) -> Postbox:
    return Postbox(scene.postern)


async def arrived(scene: UpstreamScene, word: str, *, ago: float | None) -> Tabs:
    """A browser in which Ada, who has no password, has come by the provider, which says when she signed in there."""
    scene.sits(word=word)
    scene.fakes[word].says_when = ago is not None
    if ago is not None:
        scene.fakes[word].wrong["auth_time"] = int(time() - ago)
    tabs = scene.browser()
    await scene.go(tabs, word=await scene.own_provider() if word == "own" else word)
    assert tabs.session is not None
    scene.fakes[word].wrong.pop("auth_time", None)
    return tabs


def proofs(scene: UpstreamScene) -> list[dict[str, Any]]:
    return scene.people.rows(
        "select proved_at > now() - interval '1 minute' as came_now,"
        " stated_at < now() - interval '8 hours' as long_ago, stated_at = 'epoch' as silent"
        f" from sessions where {HERS} order by id"
    )


@pytest.mark.parametrize("word", ["own", "websuite", "officesuite"])
async def test_a_visit_to_a_provider_where_the_person_signed_in_hours_ago_is_no_fresh_proof(scene: UpstreamScene, word: str) -> None:
    tabs = await arrived(scene, word, ago=LONG_AGO)
    assert proofs(scene) == [{"came_now": True, "long_ago": True, "silent": False}]
    # Ada has no other way, so she signs in again, and the provider is asked for a sign-in now.
    tab = await tabs.tab().open(PASSWORD_PAGE)
    assert tab.place.startswith("/ui/sign-in"), tab.place


@pytest.mark.parametrize("word", ["own", "websuite", "officesuite"])
async def test_a_sign_in_there_now_is_one(scene: UpstreamScene, word: str) -> None:
    tabs = await arrived(scene, word, ago=0)
    tab = await tabs.tab().open(PASSWORD_PAGE)
    assert (tab.status, tab.place) == (200, PASSWORD_PAGE)


async def test_a_provider_cannot_speak_of_the_future(scene: UpstreamScene) -> None:
    await arrived(scene, "own", ago=-3600 * 24)
    (row,) = scene.people.rows(f"select stated_at <= now() as past from sessions where {HERS}")
    assert row["past"] is True


async def test_an_application_gets_the_time_of_the_sign_in_at_the_provider(scene: UpstreamScene) -> None:
    tabs = await arrived(scene, "own", ago=LONG_AGO)
    (row,) = scene.people.rows(f"select user_id from sessions where {HERS}")
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    assert "code" in told(await tabs.request("GET", scene.asking()))
    (code,) = scene.codes()
    assert time() - code["stated_at"].timestamp() > LONG_AGO - 60
    # The application that wants a recent sign-in gets none without a question.
    answer = await tabs.request("GET", scene.asking(max_age="60"))
    assert (answer.header("location") or "").startswith("/ui/sign-in/password")
    assert told(await tabs.request("GET", scene.asking(max_age="60", prompt="none")))["error"] == "login_required"
    assert "code" in told(await tabs.request("GET", scene.asking(max_age=str(LONG_AGO + 600))))


async def test_the_session_lasts_from_its_own_beginning(scene: UpstreamScene) -> None:
    tabs = await arrived(scene, "own", ago=LONG_AGO)
    (row,) = scene.people.rows(f"select user_id from sessions where {HERS}")
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    scene.people.change("update organizations set session_hours = 8")
    assert "code" in told(await tabs.request("GET", scene.asking()))


# A provider that says nothing.


async def test_whoever_comes_by_a_silent_provider_proves_by_a_mailed_code(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    assert proofs(scene) == [{"came_now": True, "long_ago": True, "silent": True}]
    tab = await tabs.tab().open(PASSWORD_PAGE)
    assert (tab.status, tab.place.partition("?")[0]) == (200, "/ui/prove")
    await tab.send(mail_form(tab))
    mail = await mailed(postbox, log)
    assert (mail.to, tab.place.endswith("&mailed=yes")) == (ADA, True)
    form = tab.page.forms[code_form(tab)]
    await tab.send(code_form(tab), mailed_code=f"{code_in(mail)[:4]} {code_in(mail)[4:]}")
    assert tab.place == PASSWORD_PAGE
    assert scene.people.rows("select stated_at from sessions") == [{"stated_at": None}]
    (audited,) = scene.people.rows("select details from audit_log where action = 'security.session.reauthenticated'")
    assert audited["details"]["method"] == "mail"
    # The same form, sent twice, leads on as well.
    assert (await tabs.request("POST", form.action, {**form.fields, "mailed_code": code_in(mail)})).status == 303


async def test_the_code_is_for_one_session_of_one_person(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    tab = await wanted(tabs, postbox, log)
    code = code_in(tab[1])
    again = scene.browser()
    await scene.go(again, word="codehost")
    other, _ = await wanted(again, postbox, log, send=False)
    await other.send(code_form(other), mailed_code=code)
    assert (other.status, "This code is incorrect" in other.page.text) == (400, True)
    assert len(scene.people.rows("select id from sessions where stated_at = 'epoch'")) == 2


async def test_five_tries_end_it_and_each_is_a_failed_sign_in(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    tab, mail = await wanted(tabs, postbox, log)
    wrong = f"{(int(code_in(mail)) + 1) % 10**8:08}"
    for _ in range(MOST_CODE_TRIES):
        await tab.send(code_form(tab), mailed_code=wrong)
        assert tab.status == 400
    await tab.send(code_form(tab), mailed_code=code_in(mail))
    assert tab.status == 400
    assert proofs(scene) == [{"came_now": True, "long_ago": True, "silent": True}]
    failures = scene.people.rows("select count(*) as number from login_events where not success")
    assert failures == [{"number": MOST_CODE_TRIES + 1}]


async def test_of_many_at_once_one_uses_the_code(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    tab, mail = await wanted(tabs, postbox, log)
    form = tab.page.forms[code_form(tab)]
    statuses = []

    async def use() -> None:
        statuses.append((await tabs.request("POST", form.action, {**form.fields, "mailed_code": code_in(mail)})).status)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(use)
    # Whoever comes later is proved already, and goes on.
    assert set(statuses) == {303}
    assert len(scene.people.rows("select from audit_log where action = 'security.session.reauthenticated'")) == 1


@pytest.mark.parametrize(
    "change",
    [
        "update users set email_verified_at = null",
        "update users set email = 'eve@example.org', email_key = 'eve@example.org'",
        "update mailed_tokens set expires_at = now() - interval '1 second'",
    ],
)
async def test_the_mail_must_have_gone_to_the_proved_address_of_now(
    scene: UpstreamScene, postbox: Postbox, log: CapturedLog, change: str
) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    tab, mail = await wanted(tabs, postbox, log)
    form = tab.page.forms[code_form(tab)]
    scene.people.change(change)
    assert (await tabs.request("POST", form.action, {**form.fields, "mailed_code": code_in(mail)})).status in {400, 403}
    assert scene.people.rows("select stated_at = 'epoch' as silent from sessions") == [{"silent": True}]


async def test_whoever_has_proved_by_mail_once_gets_a_code_again_when_that_is_old(
    scene: UpstreamScene, postbox: Postbox, log: CapturedLog
) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    tab, mail = await wanted(tabs, postbox, log)
    await tab.send(code_form(tab), mailed_code=code_in(mail))
    scene.people.change("update sessions set proved_at = proved_at - interval '2 hours'")
    # The page asks for a new sign-in, and this shows again who came, and not when.
    assert (await tabs.tab().open(PASSWORD_PAGE)).place.startswith("/ui/sign-in")
    await scene.go(tabs, word="codehost")
    assert len(scene.people.rows("select from sessions where revoked_at is null")) == 1
    tab, mail = await wanted(tabs, postbox, log)
    await tab.send(code_form(tab), mailed_code=code_in(mail))
    assert (tab.status, tab.place) == (200, PASSWORD_PAGE)


async def test_without_a_proved_address_nobody_goes_round_and_round(scene: UpstreamScene, postbox: Postbox) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    scene.people.change("update users set email_verified_at = null")
    tab = await tabs.tab().open(PASSWORD_PAGE)
    assert (tab.status, tab.place.partition("?")[0]) == (403, "/ui/prove")
    fields = {"form_token": tab.page.forms[0].fields["form_token"], "to": PASSWORD_PAGE, "need": "account"}
    assert (await tabs.request("POST", "/ui/prove/mail", fields)).status in {400, 403}
    assert await postbox.empty() == []


async def test_codes_by_mail_and_tries_of_them_have_limits(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    caller = await scene.postern.tenancy.callers.resolve_browser(Token(tabs.session or "none"))
    assert caller is not None
    proofs_by_mail, client = scene.postern.identity.mailed_proofs, Client("198.51.100.7", "")
    for _ in range(ACCOUNT_MAILS.burst):
        await proofs_by_mail.send(caller, client)
    with pytest.raises(RateLimited):
        await proofs_by_mail.send(caller, client)
    mails = await postbox.empty()
    assert len(mails) == ACCOUNT_MAILS.burst
    log.remember(*(code_in(mail) for mail in mails))
    for _ in range(MAILED_CODES.burst):
        with pytest.raises(CodeRefused):
            await proofs_by_mail.use(caller, Secret("wrong"), client, client.actor(caller.user))
    with pytest.raises(RateLimited):
        await proofs_by_mail.use(caller, Secret(code_in(mails[-1])), client, client.actor(caller.user))


async def test_whoever_has_a_password_gets_no_code(scene: UpstreamScene, postbox: Postbox) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    scene.people.change("update users set password_hash = 'not a hash'")
    tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
    assert ("password" in tab.page.inputs, tab.place.partition("?")[0]) == (True, "/ui/prove")
    fields = {"form_token": tab.page.forms[0].fields["form_token"], "to": PASSWORD_PAGE, "need": "account"}
    assert (await tabs.request("POST", "/ui/prove/mail", fields)).status in {400, 403}
    assert await postbox.empty() == []


# Applications.


@pytest.mark.parametrize("asked", [{"max_age": "60"}, {"prompt": "login"}, {"prompt": "login", "max_age": "0"}])
async def test_an_application_gets_a_mailed_proof_and_never_the_silence(
    scene: UpstreamScene, postbox: Postbox, log: CapturedLog, asked: dict[str, str]
) -> None:
    tab = await asked_by_application(scene, asked)
    assert tab.place.startswith("/ui/prove?"), tab.place
    await tab.send(mail_form(tab))
    await tab.send(code_form(tab), mailed_code=code_in(await mailed(postbox, log)))
    assert "code" in left(tab)
    (code,) = scene.codes()
    assert (code["stated_at"], time() - code["auth_time"].timestamp() < 60) == (None, True)


async def test_an_application_gets_a_mailed_proof_as_often_as_it_asks(scene: UpstreamScene, postbox: Postbox, log: CapturedLog) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    (row,) = scene.people.rows(f"select user_id from sessions where {HERS}")
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    for _ in range(2):
        tab = await tabs.tab().open(scene.asking(prompt="login"))
        flow = tab.place.partition("flow=")[2]
        tab = await tabs.tab().open(scene.fakes["codehost"].consent(await scene.leave(tabs, f"?flow={flow}", word="codehost")))
        await tab.send(mail_form(tab))
        await tab.send(code_form(tab), mailed_code=code_in(await mailed(postbox, log)))
        assert "code" in left(tab)
        # The proof is older than the minute by which clocks may differ.
        scene.people.change("update sessions set proved_at = proved_at - interval '2 minutes'")


@pytest.mark.parametrize("asked", [{"max_age": "60"}, {"prompt": "login"}])
async def test_an_application_that_asks_for_more_is_told_so(scene: UpstreamScene, asked: dict[str, str]) -> None:
    tab = await asked_by_application(scene, asked, proved=False)
    assert left(tab)["error"] == "login_required"
    assert scene.codes() == []


async def test_an_application_that_asks_for_nothing_gets_a_code_without_a_time(scene: UpstreamScene) -> None:
    tabs = await arrived(scene, "codehost", ago=None)
    (row,) = scene.people.rows(f"select user_id from sessions where {HERS}")
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    assert "code" in told(await tabs.request("GET", scene.asking()))
    (code,) = scene.codes()
    assert code["stated_at"].timestamp() == 0


async def asked_by_application(scene: UpstreamScene, asked: dict[str, str], *, proved: bool = True) -> Tab:
    """Ada comes by the code host because an application asks for a recent sign-in. Returns the tab behind that."""
    tabs = await arrived(scene, "codehost", ago=None)
    (row,) = scene.people.rows(f"select user_id from sessions where {HERS}")
    scene.allow(Person(row["user_id"], row["user_id"], ADA))
    tab = await tabs.tab().open(scene.asking(**asked))
    flow = tab.place.partition("flow=")[2]
    assert flow, tab.place
    if not proved:
        scene.people.change("update users set email_verified_at = null")
    return await tabs.tab().open(scene.fakes["codehost"].consent(await scene.leave(tabs, f"?flow={flow}", word="codehost")))


def mail_form(tab: Tab) -> int:
    return [form.action for form in tab.page.forms].index("/ui/prove/mail")


def code_form(tab: Tab) -> int:
    return [form.action for form in tab.page.forms].index("/ui/prove")


async def mailed(postbox: Postbox, log: CapturedLog) -> Mail:
    (mail,) = [one for one in await postbox.empty() if one.subject == "Your verification code"]
    log.remember(code_in(mail))
    return mail


async def wanted(tabs: Tabs, postbox: Postbox, log: CapturedLog, *, send: bool = True) -> tuple[Tab, Mail]:
    """Ada is asked for a code, and gets it."""
    tab = await tabs.tab().open(PASSWORD_PAGE)
    if not send:
        await tab.open(f"{tab.place}&mailed=yes")
        return tab, Mail(to="", subject="", text="", html="")
    await tab.send(mail_form(tab))
    return tab, await mailed(postbox, log)


# When the sessions of an organization's own provider shall end (`session_expiry`).


async def came(scene: UpstreamScene, tabs: Tabs, expiry: Any, word: str = "") -> None:
    """Ada comes by the provider, whose ID token has this `session_expiry`."""
    fake = word or "own"
    scene.sits(word=fake)
    scene.fakes[fake].wrong["session_expiry"] = expiry
    await scene.go(tabs, word=word or await own(scene))


async def own(scene: UpstreamScene) -> str:
    rows = scene.people.rows("select id from upstream_providers")
    return str(rows[0]["id"]) if rows else await scene.own_provider()


def in_minutes(minutes: int) -> int:
    return int(time()) + 60 * minutes


def ends(scene: UpstreamScene) -> list[int]:
    """In minutes from now, one more than the provider said."""
    rows = scene.people.rows(
        f"select round(extract(epoch from ends_at - now()) / 60)::int as left, expires_at <= ends_at as whole from sessions where {HERS}"
    )
    assert all(row["whole"] for row in rows)
    return [row["left"] for row in rows]


async def test_the_browsers_session_ends_then_and_a_later_end_makes_none_longer(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await came(scene, tabs, in_minutes(120))
    assert ends(scene) == [121]
    await came(scene, tabs, in_minutes(30))
    assert ends(scene) == [31]
    await came(scene, tabs, in_minutes(600))
    assert ends(scene) == [31]
    scene.people.change(
        "update sessions set ends_at = ends_at - interval '32 minutes', expires_at = least(expires_at, ends_at - interval '32 minutes')"
    )
    assert await scene.who(tabs) is None
    # Nothing is kept by which a sign-out by SAML could name the session.
    assert scene.people.rows("select 1 from directory_sessions") == []


async def test_without_it_the_session_lasts_as_long_as_the_installation_lets_it(scene: UpstreamScene) -> None:
    for said in (None, in_minutes(60 * 24 * 3650)):
        tabs = scene.browser()
        await came(scene, tabs, said)
        assert tabs.session is not None
    assert min(ends(scene)) > 60 * 24


@pytest.mark.parametrize("said", [0, 1, "tomorrow", "1900000000", True, -5, 2**40, 1.5e300, [], {}], ids=str)
async def test_a_session_that_has_ended_there_and_a_value_that_is_no_moment_open_none(scene: UpstreamScene, said: Any) -> None:
    tabs = scene.browser()
    await came(scene, tabs, said)
    assert tabs.session is None
    assert ends(scene) == []


async def test_a_minute_is_left_to_the_clocks(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await came(scene, tabs, int(time()) - 30)
    assert tabs.session is not None
    assert ends(scene) in ([0], [1])


async def test_whoever_owes_the_second_factor_gets_a_session_with_that_end(scene: UpstreamScene) -> None:
    ada = await scene.people.with_password(PASSWORD, ADA)
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    scene.people.change("delete from sessions")
    tabs = scene.browser()
    scene.sits(word="own")
    scene.fakes["own"].wrong["session_expiry"] = in_minutes(30)
    answer = await scene.go(tabs, word=await own(scene))
    tab = await tabs.tab().open(answer.header("location") or "")
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=totp.now())
    assert tabs.session is not None
    assert ends(scene) == [31]


async def test_a_provider_of_the_installation_bounds_nothing(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await came(scene, tabs, in_minutes(30), word="websuite")
    assert tabs.session is not None
    assert min(ends(scene)) > 60 * 24
