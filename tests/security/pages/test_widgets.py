"""Widgets of others: answers of another site, action or flow, replayed, in two processes; makers that are slow, huge, redirecting or away;
strangers who would have them away; the secret read back; and what the maker's script could reach.
"""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from adapters.crypto.key_ring import EncryptionKey
from adapters.widgets import widget_presets
from core.domain.errors import Overloaded
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.guards.puzzles import LIFETIME, THERE_FOR, KeptForm, PuzzlePurpose, PuzzleUnsolved, WidgetVerdict
from core.frozen import replace
from core.usecases.identity.guards.puzzles import OUR_OWN, Widgets
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ports.identity.sign_in import WidgetSilent
from tests.adapters.widgets.maker_server import HCAPTCHA, SECRET, SITE_KEY, TURNSTILE, WidgetMakerServer, widget_maker, with_widget
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab
from tests.http.client import Client
from tests.http.conftest import postern_on
from tests.http.pages.test_puzzles import asked_for_password, asks, browser, make_mails_busy, make_sign_ins_busy
from tests.http.pages.test_widgets import answered, at_widget, attributes_of, shows
from tests.http.people import People
from tests.http.signing_in import PASSWORD, UNLIMITED
from tests.patience import PATIENCE
from tests.receiver import CRUMBS, Answer, answering, hanging_up
from tests.usecases.set_clock import SetClock

database_url, postern, people = http.database_url, http.postern, http.people

FORM = "the token of the form"
FIELDS = {"email": "ada@example.org", "password": PASSWORD}
PURPOSE = PuzzlePurpose.REGISTRATION
HUGE = answering(200, json.dumps({"success": True, "hostname": "id.example.org", "filling": "x" * 20_000}).encode())
REDIRECTING = answering(302, b"", "location: http://127.0.0.1:1/siteverify")
NO_VERDICTS: dict[str, Answer] = {
    "huge": HUGE,
    "redirecting": REDIRECTING,
    "failing": answering(500, b'{"success": true, "hostname": "id.example.org"}'),
    "a page": answering(200, b"<html>One moment</html>"),
    "a list": answering(200, b"[true]"),
    "deep": answering(200, b"[" * 8000),
    "yes in words": answering(200, b'{"success": "true", "hostname": "id.example.org"}'),
    "hanging up": hanging_up,
    **CRUMBS,
}


@pytest.fixture
async def maker() -> AsyncIterator[WidgetMakerServer]:
    async with widget_maker() as server:
        yield server


@pytest.fixture
def guarded(postern: Postern, maker: WidgetMakerServer) -> Postern:
    return with_widget(postern, maker)


@pytest.fixture
def widgets(guarded: Postern) -> Widgets:
    return guarded.identity.widgets


@pytest.fixture
async def another_process(database_url: str, tmp_path: Path, maker: WidgetMakerServer) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path / "another") as opened:
        yield with_widget(opened, maker)


def kept(widgets: Widgets, purpose: PuzzlePurpose = PURPOSE, binding: str = FORM) -> tuple[KeptForm, str]:
    made = widgets.keep(purpose, binding, FIELDS)
    assert made is not None
    return made


def solved(maker: WidgetMakerServer, form: KeptForm, **changed: str) -> str:
    return maker.solve({"action": form.purpose.value, "cdata": form.bound}, **changed)


async def why(widgets: Widgets, form: KeptForm, answer: str) -> str:
    """Why it is refused; empty if it counts."""
    try:
        await widgets.check(form, answer)
    except PuzzleUnsolved as refusal:
        return refusal.reason
    return ""


async def test_answers_of_another_site_or_action_or_form(widgets: Widgets, maker: WidgetMakerServer) -> None:
    form, other = kept(widgets)[0], kept(widgets)[0]
    assert await why(widgets, form, solved(maker, form, site="evil.example.org")) == "site"
    assert await why(widgets, form, solved(maker, form, site="id.example.org.evil.example")) == "site"
    assert await why(widgets, form, solved(maker, form, hostname="")) == "site"
    assert await why(widgets, form, solved(maker, form, action="sign_in")) == "action"
    assert await why(widgets, form, solved(maker, form, action="")) == "action"
    assert await why(widgets, form, solved(maker, other)) == "flow"
    # None of it used the form up.
    assert await why(widgets, form, solved(maker, form)) == ""


async def test_form_and_answer_count_once(widgets: Widgets, maker: WidgetMakerServer) -> None:
    form = kept(widgets)[0]
    answer = solved(maker, form)
    assert [await why(widgets, form, one) for one in (answer, answer, solved(maker, form))] == ["", "refused", "used"]


async def test_an_answer_that_its_maker_takes_twice_counts_once_over_two_processes(
    widgets: Widgets, another_process: Postern, maker: WidgetMakerServer
) -> None:
    """Makers promise to take an answer once. We do not depend on it."""
    form = kept(widgets)[0]
    verdict = {"success": True, "hostname": "id.example.org", "action": form.purpose.value, "cdata": form.bound}
    maker.says(answering(200, json.dumps(verdict).encode()))
    reasons: list[str] = []

    async def race(one: Widgets, answer: str) -> None:
        reasons.append(await why(one, form, answer))

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(race, widgets, "0.the-same")
                nursery.start_soon(race, another_process.identity.widgets, "0.the-same")
    assert sorted(reasons) == ["", *["replayed"] * 9]
    assert await why(another_process.identity.widgets, form, "0.another") == "used"


async def test_a_kept_form_is_of_its_browser_flow_and_purpose_for_five_minutes(
    widgets: Widgets, database_url: str, tmp_path: Path, people: People
) -> None:
    _, sealed = kept(widgets)

    def objection(text: str, purpose: PuzzlePurpose = PURPOSE, binding: str = FORM, at: Widgets = widgets) -> str:
        try:
            at.opened(purpose, binding, text)
        except PuzzleUnsolved as refusal:
            return refusal.reason
        return ""

    late = replace(widgets, clock=SetClock(widgets.clock.now() + LIFETIME))
    assert objection(sealed, binding="another form") == "flow"
    assert objection(sealed, PuzzlePurpose.SIGN_IN) == "purpose"
    assert objection(sealed, at=late) == "late"
    assert objection(sealed) == ""
    altered = sealed[:-1] + ("A" if sealed[-1] != "A" else "B")
    for text in ("A", "\ud800", "ümlaut", altered, "A" * 10_000):
        assert objection(text) == "foreign"
    keys = {"POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"x" * 32).line()}
    async with postern_on(database_url, tmp_path / "foreign", keys) as foreign:
        made = foreign.identity.widgets.keep(PURPOSE, FORM, FIELDS)
        assert made is not None
        assert objection(made[1]) == "foreign"
    # A challenge of a puzzle is no form, and a form is no challenge.
    assert people.rows("select from used_puzzles") == []


async def test_a_form_of_another_browser_or_flow_leads_back_to_its_page(guarded: Postern, maker: WidgetMakerServer, people: People) -> None:
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    stolen = {"kept": tab.page.forms[0].fields["kept"], **answered(maker, tab)}
    thief = await browser(guarded).tab().open("/ui/register")
    await thief.send(email="eve@example.org", password=PASSWORD, **stolen)
    assert thief.status == 403
    # In the browser itself, at another form.
    other = await tab.tabs.tab().open("/ui/forgot-password")
    await other.send(email="ada@example.org", **stolen)
    assert other.status == 403
    assert people.rows("select from users") == []
    assert maker.asked == []


async def test_an_answer_of_another_flow_does_not_count_at_this_one(guarded: Postern, maker: WidgetMakerServer) -> None:
    await make_mails_busy(guarded)
    one, other = await at_widget(guarded), await at_widget(guarded, "eve@example.org")
    await other.send(**answered(maker, one))
    assert other.status == 400
    assert shows(other)


@pytest.mark.parametrize("what", NO_VERDICTS)
async def test_a_maker_without_a_verdict_lets_nobody_in_and_is_away(widgets: Widgets, maker: WidgetMakerServer, what: str) -> None:
    form = kept(widgets)[0]
    answer = solved(maker, form)
    maker.says(NO_VERDICTS[what])
    with trio.fail_after(PATIENCE):
        assert await why(widgets, form, answer) == "away"
    assert widgets.shown is None
    # From now on nobody waits for it.
    calls = len(maker.receiver.calls)
    assert await why(widgets, form, answer) == "away"
    assert len(maker.receiver.calls) == calls


@pytest.mark.parametrize("what", ["failing", "huge", "hanging up"])
async def test_a_stranger_does_not_make_the_maker_away_for_himself(widgets: Widgets, maker: WidgetMakerServer, what: str) -> None:
    """Some answer of his upsets the maker. Ours does not."""
    form = kept(widgets)[0]

    async def upset(stream: trio.abc.Stream, call: Any) -> bool:
        mine = b"0.upsetting" not in call.body
        return await (maker.answer if mine else NO_VERDICTS[what])(stream, call)

    maker.says(upset)
    assert await why(widgets, form, "0.upsetting") == "unclear"
    assert widgets.shown is not None
    # Nor does a flood of it make us ask as often.
    before = len(maker.asked)
    for _ in range(5):
        assert await why(widgets, form, "0.upsetting") == "unclear"
    assert len(maker.asked) == before == 1
    assert maker.asked[0]["response"] == OUR_OWN
    assert await why(widgets, form, solved(maker, form)) == ""


async def test_a_flood_without_answers_asks_the_maker_once_in_ten_seconds(widgets: Widgets, maker: WidgetMakerServer) -> None:
    form = kept(widgets)[0]
    assert {await why(widgets, form, "") for _ in range(20)} == {"none"}
    assert len(maker.asked) == 1
    later = replace(widgets, clock=SetClock(widgets.clock.now() + THERE_FOR))
    assert await why(later, form, "") == "none"
    assert len(maker.asked) == 2


@pytest.mark.parametrize("answer", ["x" * 2049, "a b", "ümlaut", "a&secret=mine", "\x00", "\ud800"])
async def test_what_is_no_answer_costs_no_call(widgets: Widgets, maker: WidgetMakerServer, answer: str) -> None:
    assert await why(widgets, kept(widgets)[0], answer) == "malformed"
    assert maker.receiver.calls == []


async def test_a_slow_maker_keeps_a_bounded_number_of_requests(
    widgets: Widgets, maker: WidgetMakerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody gives up before all have asked.
    monkeypatch.setattr("adapters.widgets._PATIENCE", timedelta(seconds=PATIENCE))
    form, reasons = kept(widgets)[0], list[str]()

    async def ask() -> None:
        reasons.append(await why(widgets, form, "0.slow"))

    never = trio.Event()

    async def waiting(_stream: trio.abc.Stream, _call: Any) -> bool:
        await never.wait()
        return False

    maker.says(waiting)
    async with trio.open_nursery() as nursery:
        for _ in range(64):
            nursery.start_soon(ask)
        with trio.fail_after(PATIENCE):
            await maker.receiver.until(64)
        # Too many is not away: then a stranger's flood would make it so.
        assert await why(widgets, form, "0.one-more") == "busy"
        assert await why(widgets, form, "") == "busy"
        assert widgets.shown is not None
        nursery.cancel_scope.cancel()
    maker.is_back()
    assert await why(widgets, form, solved(maker, form)) == ""


async def test_who_looks_whether_the_maker_is_there_looks_alone(guarded: Postern) -> None:
    """While one request looks, no other one of the process does."""
    looking, go_on = trio.Event(), trio.Event()

    class Looking:
        preset = widget_presets()[TURNSTILE]
        site_key = SITE_KEY
        asked = 0

        async def verify(self, answer: str) -> WidgetVerdict:
            assert answer == OUR_OWN
            self.asked += 1
            looking.set()
            await go_on.wait()
            raise WidgetSilent("of this test")

    maker = Looking()
    widgets = replace(guarded.identity.widgets, maker=maker)
    form, reasons = kept(widgets)[0], list[str]()

    async def ask() -> None:
        reasons.append(await why(widgets, form, ""))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await looking.wait()
        assert await why(widgets, form, "") == "none"
        go_on.set()
    assert reasons == ["away"]
    assert maker.asked == 1


async def test_a_flood_that_answers_nothing_writes_and_hashes_nothing(guarded: Postern, people: People) -> None:
    await make_mails_busy(guarded)
    people.change("delete from flows")
    tab = await at_widget(guarded)
    fields = tab.page.forms[0].fields
    trips = guarded.foundation.database.count_round_trips()
    for _ in range(10):
        answer = await tab.tabs.request("POST", "/ui/register", {**fields, "cf-turnstile-response": "0.made-up"})
        assert answer.status == 400
    fresh = await browser(guarded).tab().open("/ui/register")
    await fresh.send(email="ada@example.org", password=PASSWORD)
    assert shows(fresh)
    trips.stop()
    assert trips.count == 0
    assert people.rows("select from users union all select from flows union all select from used_puzzles") == []


async def test_the_widget_comes_before_the_password_is_looked_at(guarded: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(guarded)
    before = people.rows("select count(*) as number from login_events")
    pages = []
    for password in (PASSWORD, "a wrong guess"):
        tab = await asked_for_password(browser(guarded), ada.email)
        await tab.send(password=password)
        assert shows(tab)
        pages.append(len(tab.shown.body))
    assert people.rows("select count(*) as number from login_events") == before
    # The page tells nothing of the password, not even its length.
    assert len(set(pages)) == 1


async def test_another_site_can_neither_frame_the_page_nor_send_its_form(guarded: Postern, maker: WidgetMakerServer) -> None:
    await make_mails_busy(guarded)
    tab = await at_widget(guarded)
    assert "frame-ancestors 'none'" in (tab.shown.header("content-security-policy") or "")
    fields = {**tab.page.forms[0].fields, **answered(maker, tab)}
    client = Client(build_application(guarded, UNLIMITED), "192.0.2.1")
    headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "cross-site"),
        ("cookie", "; ".join(f"{name}={value}" for name, value in tab.tabs.cookies.items())),
    ]
    sent = await client.request("POST", "/ui/register", headers=headers, body=urlencode(fields).encode())
    assert sent.status == 403


async def test_the_secret_is_read_back_nowhere(
    database_url: str, tmp_path: Path, maker: WidgetMakerServer, people: People, log: CapturedLog
) -> None:
    log.remember(SECRET)
    more = {"POSTERN_WIDGET": "turnstile", "POSTERN_WIDGET_SITE_KEY": SITE_KEY, "POSTERN_WIDGET_SECRET": SECRET}
    async with postern_on(database_url, tmp_path / "with", more) as opened:
        guarded = with_widget(opened, maker)
        for told in (repr(opened.settings), str(opened.settings), repr(guarded.identity.widgets), repr(opened.identity.widgets)):
            assert SECRET not in told
        await make_mails_busy(guarded)
        tab = await at_widget(guarded)
        assert SECRET not in tab.shown.body.decode() + str(tab.shown.headers)
        finding = await checks.widget(guarded)
        assert SECRET not in finding.text
        await tab.send(**answered(maker, tab))
        assert SECRET not in guarded.foundation.metrics.render().decode()
    tables = [
        row["t"] for row in people.rows("select table_name as t from information_schema.tables where table_schema = current_schema()")
    ]
    for table in tables:
        for text in (SECRET, PASSWORD):
            assert not people.rows(f"select from {table} as one where one::text ilike %s", f"%{text}%"), table


async def test_the_doctor_says_whose_widget_it_is_and_whether_the_maker_answers(
    postern: Postern, guarded: Postern, maker: WidgetMakerServer
) -> None:
    assert (await checks.widget(postern)).is_used is False
    finding = await checks.widget(guarded)
    assert (finding.verdict, finding.text) == (checks.Verdict.OK, "Cloudflare Turnstile answers, and knows the secret")
    finding = await checks.widget(with_widget(postern, maker, "another"))
    assert finding.verdict is checks.Verdict.FAIL
    assert "invalid-input-secret" in finding.text
    maker.says(answering(503))
    assert "status 503" in (await checks.widget(guarded)).text


async def test_an_overloaded_process_is_no_fault_of_the_maker(guarded: Postern) -> None:
    class Busy:
        preset = widget_presets()[TURNSTILE]
        site_key = SITE_KEY

        async def verify(self, _answer: str) -> WidgetVerdict:
            raise Overloaded(retry_after=1)

    widgets = replace(guarded.identity.widgets, maker=Busy())
    assert await why(widgets, kept(widgets)[0], "") == "busy"


async def test_a_maker_that_names_no_action_is_compared_by_its_site_alone(postern: Postern) -> None:
    async with widget_maker(HCAPTCHA) as maker:
        widgets = with_widget(postern, maker).identity.widgets
        form = kept(widgets)[0]
        assert await why(widgets, form, solved(maker, form, site="evil.example.org")) == "site"
        assert await why(widgets, form, solved(maker, form)) == ""
        assert maker.asked[0]["sitekey"] == SITE_KEY


async def test_mismatches_stand_in_the_log_without_what_was_sent(guarded: Postern, maker: WidgetMakerServer, log: CapturedLog) -> None:
    await make_mails_busy(guarded)
    tab: Tab = await at_widget(guarded)
    answer = maker.solve(attributes_of(tab), site="evil.example.org")
    log.remember(answer)
    await tab.send(**{"cf-turnstile-response": answer})
    (entry,) = log.events("widget_answer_refused")
    assert (entry["purpose"], entry["reason"]) == ("registration", "site")
    assert not asks(tab)


@pytest.mark.parametrize("email", ["a@b.de", f"{'a' * 64}@{'b' * 60}.{'c' * 60}.example"])
async def test_what_waits_is_as_long_for_every_password(widgets: Widgets, email: str) -> None:
    """The maker's script can read its length."""
    lengths = set()
    for password in ("short one", "x" * LONGEST_PASSWORD, "\N{SNOWMAN}" * LONGEST_PASSWORD):
        made = widgets.keep(PURPOSE, FORM, {"email": email, "password": password})
        assert made is not None
        lengths.add(len(made[1]))
    assert len(lengths) == 1


async def test_a_form_that_waits_prints_nothing_that_somebody_has_typed(widgets: Widgets) -> None:
    told = repr(kept(widgets)[0])
    assert PASSWORD not in told
    assert "ada@example.org" not in told


async def test_a_budget_that_is_over_makes_an_account_no_cheap_way_round_the_widget(
    database_url: str, tmp_path: Path, maker: WidgetMakerServer, people: People
) -> None:
    """Pages are quiet, and the budget alone asks. Whoever is signed in computes as much as where many requests come in."""
    ada = await people.with_password(PASSWORD, "ada@example.org")
    async with postern_on(database_url, tmp_path / "budgets", {"POSTERN_MAILS_PER_NETWORK": "1"}) as opened:
        guarded = with_widget(opened, maker)
        tabs = browser(guarded)
        await (await asked_for_password(tabs, ada.email)).send(password=PASSWORD)
        assert tabs.session is not None
        await (await tabs.tab().open("/ui/forgot-password")).send(email="bob@example.org")
        tab = await tabs.tab().open("/ui/forgot-password")
        await tab.send(email="eve@example.org")
        assert asks(tab)
        # In eight parts: 20 bits.
        assert 'data-bits="17"' in tab.shown.body.decode()
