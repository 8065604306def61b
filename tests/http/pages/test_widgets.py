"""Pages that show the widget of another maker in place of our puzzle, where the operator names one."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from core.domain.identity.guards.puzzles import AWAY_FOR, WAIT
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.settings import SettingsError
from tests.adapters.widgets.maker_server import HCAPTCHA, SECRET, SITE_KEY, TURNSTILE, WidgetMakerServer, widget_maker, with_widget
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.conftest import postern_on
from tests.http.pages.test_puzzles import asked_for_password, asks, browser, make_mails_busy, make_sign_ins_busy, solution_of
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD
from tests.receiver import answering
from tests.usecases.set_clock import SetClock

TITLE = "Confirm that you are human"


@pytest.fixture
def name() -> str:
    """Whose widget it is; tests say otherwise by `parametrize`."""
    return TURNSTILE


@pytest.fixture
async def maker(name: str) -> AsyncIterator[WidgetMakerServer]:
    async with widget_maker(name) as server:
        yield server


@pytest.fixture
async def guarded(postern: Postern, maker: WidgetMakerServer) -> Postern:
    return with_widget(postern, maker)


def shows(tab: Tab) -> bool:
    return TITLE in tab.page.text


def attributes_of(tab: Tab) -> Mapping[str, str]:
    """What the script of the widget reads, without `data-`."""
    element = re.search(r'<div class="(?:cf-turnstile|h-captcha)"([^>]*)>', tab.shown.body.decode())
    assert element is not None
    return dict(re.findall(r'data-([a-z]+)="([^"]*)"', element[1]))


def answered(maker: WidgetMakerServer, tab: Tab, **changed: str) -> dict[str, str]:
    """What the script of the widget adds to the form."""
    field = {TURNSTILE: "cf-turnstile-response", HCAPTCHA: "h-captcha-response"}[maker.name]
    return {field: maker.solve(attributes_of(tab), **changed)}


async def at_widget(postern: Postern, email: str = "bob@example.org") -> Tab:
    """A person who has sent the form of a registration, and is shown the widget."""
    tab = await browser(postern).tab().open("/ui/register")
    await tab.send(email=email, password=PASSWORD)
    assert shows(tab)
    return tab


@pytest.mark.parametrize("name", [TURNSTILE, HCAPTCHA])
async def test_a_registration_goes_on_with_the_answer_of_the_widget(guarded: Postern, maker: WidgetMakerServer, people: People) -> None:
    await make_mails_busy(guarded)
    tab = await browser(guarded).tab().open("/ui/register")
    assert not asks(tab)
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert tab.status == 200
    assert shows(tab)
    assert people.rows("select from users") == []
    assert attributes_of(tab)["sitekey"] == SITE_KEY
    await tab.send(**answered(maker, tab))
    assert tab.place.startswith("/ui/check-mail")
    assert [row["email"] for row in people.rows("select email from users")] == ["bob@example.org"]
    signed_in = await asked_for_password(browser(guarded), "bob@example.org")
    await signed_in.send(password=PASSWORD)
    assert "not verified yet" in signed_in.page.text
    # The maker is told the secret and the answer; nothing of the person.
    (told,) = maker.asked
    assert set(told) == {"secret", "response", *(["sitekey"] if maker.name == HCAPTCHA else [])}


async def test_quiet_pages_show_no_widget_and_ask_nobody(guarded: Postern, maker: WidgetMakerServer, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    tab = await browser(guarded).tab().open("/ui/register")
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail")
    await (signing := await asked_for_password(browser(guarded), ada.email)).send(password=PASSWORD)
    assert signing.place == "/ui"
    assert maker.asked == []
    assert "challenges.cloudflare.com" not in tab.shown.body.decode() + str(tab.shown.headers)


async def test_a_sign_in_in_quiet_times_costs_no_round_trip_more(postern: Postern, guarded: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    off = replace(postern, identity=replace(postern.identity, puzzles=replace(postern.identity.puzzles, is_on=False)))
    trips = []
    for one in (off, off, postern, guarded):
        counted = one.foundation.database.count_round_trips()
        tab = await asked_for_password(browser(one), ada.email)
        await tab.send(password=PASSWORD)
        counted.stop()
        assert tab.tabs.session is not None
        trips.append(counted.count)
    # The first has filled caches.
    assert trips[1] == trips[2] == trips[3]


async def test_a_new_password_a_link_and_the_mail_once_more(guarded: Postern, maker: WidgetMakerServer, people: People) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    await make_mails_busy(guarded)
    postbox = Postbox(guarded)
    await postbox.empty()
    tab = await browser(guarded).tab().open("/ui/forgot-password")
    await tab.send(email="ada@example.org")
    assert shows(tab)
    assert await postbox.empty() == []
    await tab.send(**answered(maker, tab))
    assert tab.place.startswith("/ui/check-mail")
    assert len(await postbox.empty()) == 1
    tab = await asked_for_password(browser(guarded), "ada@example.org")
    await tab.send(len(tab.page.forms) - 1)
    assert shows(tab)
    await tab.send(**answered(maker, tab))
    assert tab.place.startswith("/ui/check-mail")
    await tab.open(tab.place.replace("mail=sign_in_link", "mail=verification"))
    await tab.send(1)
    assert shows(tab)
    await tab.send(**answered(maker, tab))
    assert tab.place.startswith("/ui/check-mail")


async def test_a_sign_in_after_many_failures_goes_on_with_the_password_that_was_typed(
    guarded: Postern, maker: WidgetMakerServer, people: People
) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(guarded)
    tab = await asked_for_password(browser(guarded), ada.email)
    await tab.send(password="a wrong guess")
    assert shows(tab)
    await tab.send(**answered(maker, tab))
    assert tab.status == 400
    assert not shows(tab)
    await tab.send(password=PASSWORD)
    await tab.send(**answered(maker, tab))
    assert tab.tabs.session is not None


async def test_the_page_has_nothing_but_the_widget_and_its_own_policy(guarded: Postern) -> None:
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    (form,) = tab.page.forms
    assert {name: given.get("type") for name, given in tab.page.inputs.items()} == {"form_token": "hidden", "kept": "hidden"}
    body = tab.shown.body.decode()
    assert re.findall(r'<script src="([^"]+)"', body) == ["https://challenges.cloudflare.com/turnstile/v0/api.js"]
    assert "bob@example.org" not in body
    assert PASSWORD not in body
    assert SECRET not in body
    policy = dict(one.partition(" ")[::2] for one in (tab.shown.header("content-security-policy") or "").split("; "))
    maker = "https://challenges.cloudflare.com"
    assert policy == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        "form-action": "'self'",
        "script-src": maker,
        "frame-src": maker,
        "connect-src": maker,
        "style-src": "'self'",
        "img-src": "'self'",
        "sandbox": "allow-forms allow-same-origin allow-scripts",
    }
    permissions = [value for name, value in tab.shown.headers if name == "permissions-policy"]
    assert any("publickey-credentials-get=()" in one for one in permissions)
    assert any("camera=()" in one for one in permissions)
    assert tab.shown.header("cache-control") == "no-store"
    # The page before it, and that of a refusal, keep theirs.
    for page in (await browser(guarded).tab().open("/ui/register"), await tab.send(kept="")):
        assert "cloudflare" not in (page.shown.header("content-security-policy") or "")
    assert form.action == "/ui/register"


async def test_whoever_is_signed_in_computes_more_and_runs_no_script_of_others(
    guarded: Postern, maker: WidgetMakerServer, people: People
) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    tabs = browser(guarded)
    await (await asked_for_password(tabs, ada.email)).send(password=PASSWORD)
    await make_mails_busy(guarded)
    tab = await tabs.tab().open("/ui/forgot-password")
    assert asks(tab)
    assert 'data-bits="17"' in tab.shown.body.decode()
    # A cookie of no session is no way round the widget.
    stranger = browser(guarded)
    stranger.cookies = {"__Host-postern_session": "A" * 43}
    assert not asks(await stranger.tab().open("/ui/forgot-password"))
    assert maker.asked == []


async def test_without_an_answer_the_page_comes_back(guarded: Postern, maker: WidgetMakerServer) -> None:
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    await tab.send()
    assert tab.status == 200
    assert shows(tab)
    # Where nothing was shown, the maker may be away: we have looked, by an answer of our own.
    assert [told["response"] for told in maker.asked] == ["of-no-widget"]
    await tab.send(**{"cf-turnstile-response": "0.made-up"})
    assert tab.status == 400
    assert "The CAPTCHA was not accepted" in tab.page.text
    await tab.send(**answered(maker, tab))
    assert tab.place.startswith("/ui/check-mail")


async def test_while_the_maker_is_away_the_form_waits_for_our_puzzle(
    guarded: Postern, maker: WidgetMakerServer, people: People, log: CapturedLog
) -> None:
    clock = SetClock(guarded.foundation.clock.now())
    identity = guarded.identity
    guarded = replace(
        guarded,
        identity=replace(identity, widgets=replace(identity.widgets, clock=clock), puzzles=replace(identity.puzzles, clock=clock)),
    )
    await make_mails_busy(guarded)
    maker.says(answering(503))
    tab = await at_widget(guarded)
    await tab.send(**answered(maker, tab))
    assert not shows(tab)
    assert asks(tab)
    assert b"data-sends" in tab.shown.body
    assert len(log.events("widget_silent")) == 2
    # Others compute on the page itself, without another call.
    calls = len(maker.receiver.calls)
    other = await browser(guarded).tab().open("/ui/register")
    assert asks(other)
    await other.send(email="eve@example.org", password=PASSWORD, solution=solution_of(other))
    assert other.place.startswith("/ui/check-mail")
    assert len(maker.receiver.calls) == calls
    # The maker comes back meanwhile. What somebody has computed counts all the same.
    maker.is_back()
    clock.at += AWAY_FOR
    await at_widget(guarded, "carol@example.org")
    await tab.send(solution=solution_of(tab))
    assert tab.place.startswith("/ui/check-mail")
    assert {row["email"] for row in people.rows("select email from users")} == {"bob@example.org", "eve@example.org"}


async def test_a_maker_that_does_not_know_the_secret_counts_as_away(postern: Postern, maker: WidgetMakerServer, log: CapturedLog) -> None:
    guarded = with_widget(postern, maker, "another secret")
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    await tab.send(**answered(maker, tab))
    assert asks(tab)
    assert {one["reason"] for one in log.events("widget_silent")} == {"invalid-input-secret"}


async def test_without_scripts_an_hour_of_waiting_counts(guarded: Postern, maker: WidgetMakerServer) -> None:
    clock = SetClock(guarded.foundation.clock.now())
    identity = guarded.identity
    guarded = replace(
        guarded,
        identity=replace(identity, widgets=replace(identity.widgets, clock=clock), puzzles=replace(identity.puzzles, clock=clock)),
    )
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    assert "wait one hour" in tab.page.text
    tabs = tab.tabs
    clock.at += WAIT
    await make_mails_busy(guarded)
    # The form that was kept is too old.
    await tab.send()
    assert tab.status == 403
    done = await (await tabs.tab().open("/ui/register")).send(email="bob@example.org", password=PASSWORD)
    assert done.place.startswith("/ui/check-mail")
    assert maker.asked == []


async def test_a_budget_of_mails_that_is_over_asks_for_the_widget(database_url: str, tmp_path: Path, maker: WidgetMakerServer) -> None:
    async with postern_on(database_url, tmp_path, {"POSTERN_MAILS_PER_NETWORK": "1"}) as opened:
        guarded = with_widget(opened, maker)
        first = await browser(guarded).tab().open("/ui/register")
        await first.send(email="ada@example.org", password=PASSWORD)
        assert first.place.startswith("/ui/check-mail")
        tab = await at_widget(guarded)
        assert tab.status == 429
        assert shows(tab)
        await tab.send(**answered(maker, tab))
        assert tab.place.startswith("/ui/check-mail")


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
async def test_the_widget_speaks_the_language_of_the_page(guarded: Postern, language: str) -> None:
    await make_mails_busy(guarded)
    tabs = Tabs(browser(guarded).client, language=language)
    tab = await tabs.tab().open("/ui/register")
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert attributes_of(tab)["language"] == language


@pytest.mark.parametrize("name", [HCAPTCHA])
async def test_a_widget_may_be_told_the_language_by_the_address_of_its_script(guarded: Postern) -> None:
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    assert 'src="https://js.hcaptcha.com/1/api.js?recaptchacompat=off&amp;hl=en"' in tab.shown.body.decode()
    assert "https://*.hcaptcha.com" in (tab.shown.header("content-security-policy") or "")


async def test_a_form_that_is_too_long_to_wait_is_refused_on_its_own_page(guarded: Postern) -> None:
    await make_mails_busy(guarded)
    tab = await browser(guarded).tab().open("/ui/register")
    await tab.send(email="bob@example.org", password=PASSWORD, to="/" + "x" * 10_000)
    assert tab.status == 400
    assert not shows(tab)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"POSTERN_WIDGET": "turnstile"}, "needs POSTERN_WIDGET_SITE_KEY and POSTERN_WIDGET_SECRET"),
        ({"POSTERN_WIDGET": "turnstile", "POSTERN_WIDGET_SITE_KEY": "key"}, "needs POSTERN_WIDGET_SITE_KEY"),
        ({"POSTERN_WIDGET_SITE_KEY": "key"}, "POSTERN_WIDGET is off"),
        ({"POSTERN_WIDGET_SECRET": "secret"}, "POSTERN_WIDGET is off"),
        ({"POSTERN_WIDGET": "recaptcha"}, "POSTERN_WIDGET must be off, turnstile or hcaptcha"),
        (
            {"POSTERN_WIDGET": "hcaptcha", "POSTERN_WIDGET_SITE_KEY": "key", "POSTERN_WIDGET_SECRET": "secret", "POSTERN_PUZZLES": "off"},
            "needs POSTERN_PUZZLES=on",
        ),
    ],
)
async def test_settings_that_cannot_hold_stop_the_start(database_url: str, tmp_path: Path, more: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        async with postern_on(database_url, tmp_path, more):
            pass


@pytest.mark.parametrize("name", [TURNSTILE, HCAPTCHA])
async def test_a_start_with_the_settings_shows_the_widget(database_url: str, tmp_path: Path, name: str) -> None:
    more = {"POSTERN_WIDGET": name, "POSTERN_WIDGET_SITE_KEY": SITE_KEY, "POSTERN_WIDGET_SECRET": SECRET}
    async with postern_on(database_url, tmp_path, more) as opened:
        await make_mails_busy(opened)
        assert attributes_of(await at_widget(opened))["sitekey"] == SITE_KEY


async def test_metrics_count_what_widgets_brought(guarded: Postern, maker: WidgetMakerServer) -> None:
    def counted(outcome: str) -> float:
        told = guarded.foundation.metrics.render().decode()
        line = re.search(rf'sso_widgets_answered_total{{outcome="{outcome}",purpose="registration"}} ([\d.]+)', told)
        return 0.0 if line is None else float(line[1])

    before = {outcome: counted(outcome) for outcome in ("asked", "solved", "refused")}
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    await tab.send(**{"cf-turnstile-response": "0.made-up"})
    await tab.send(**answered(maker, tab))
    assert {outcome: counted(outcome) - before[outcome] for outcome in before} == {"asked": 2, "solved": 1, "refused": 1}
