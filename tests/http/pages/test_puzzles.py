"""Pages that ask for a puzzle, where many requests come from."""

from datetime import timedelta

import pytest

from core.domain.identity.guards.puzzles import WAIT, WAITED_UNTIL
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.http.browsing import Tab, Tabs
from tests.http.pages.solving import solve
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited
from tests.usecases.set_clock import SetClock

# One more than what is usual of an address.
MAILS, FAILURES = 21, 31


def browser(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


async def make_mails_busy(postern: Postern, address: str = "192.0.2.1") -> None:
    tab = await Tabs(unlimited(postern, address=address)).tab().open("/ui/forgot-password")
    form = tab.page.forms[0]
    for _ in range(MAILS):
        await tab.tabs.request("POST", form.action, {**form.fields, "email": "nobody@example.org"})


async def make_sign_ins_busy(postern: Postern, address: str = "192.0.2.1") -> None:
    tab = await asked_for_password(Tabs(unlimited(postern, address=address)), "nobody@example.org")
    form = tab.page.forms[0]
    for _ in range(FAILURES):
        await tab.tabs.request("POST", form.action, {**form.fields, "password": "a wrong guess"})


async def asked_for_password(tabs: Tabs, email: str) -> Tab:
    tab = await tabs.tab().open("/ui/sign-in")
    return await tab.send(email=email)


def solution_of(tab: Tab) -> str:
    """What the script computes for the page."""
    fields, body = tab.page.forms[0].fields, tab.shown.body.decode()
    bits = int(body.partition('data-bits="')[2].partition('"')[0])
    return solve(fields["challenge"], bits + 3)


def asks(tab: Tab) -> bool:
    return "challenge" in tab.page.forms[0].fields


async def test_quiet_pages_ask_for_nothing_and_have_no_script_for_it(postern: Postern) -> None:
    for place in ("/ui/register", "/ui/forgot-password"):
        trips = postern.foundation.database.count_round_trips()
        tab = await browser(postern).tab().open(place)
        trips.stop()
        assert trips.count == 0
        assert not asks(tab)
        assert b"puzzle" not in tab.shown.body
        assert "__Host-postern_waiting" not in tab.tabs.cookies
    tab = await asked_for_password(browser(postern), "ada@example.org")
    assert b"puzzle" not in tab.shown.body


async def test_these_pages_alone_may_run_a_worker(postern: Postern) -> None:
    tab = await browser(postern).tab().open("/ui/register")
    assert "worker-src 'self'" in (tab.shown.header("content-security-policy") or "")
    assert "worker-src" not in ((await tab.open("/ui/sign-in")).shown.header("content-security-policy") or "")


async def test_registration_counts_with_the_puzzle_solved_and_not_without(postern: Postern, people: People) -> None:
    await make_mails_busy(postern)
    tab = await browser(postern).tab().open("/ui/register")
    assert asks(tab)
    await tab.send(email="bob@example.org", password=PASSWORD)
    assert tab.status == 400
    assert "requires a security check" in tab.page.text
    assert people.rows("select from users") == []
    await tab.send(email="bob@example.org", password=PASSWORD, solution=solution_of(tab))
    assert tab.place.startswith("/ui/check-mail")
    assert len(people.rows("select from users")) == 1


async def test_a_mail_for_a_new_password_counts_with_the_puzzle_solved(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    await make_mails_busy(postern)
    postbox = Postbox(postern)
    await postbox.empty()
    tab = await browser(postern).tab().open("/ui/forgot-password")
    await tab.send(email="ada@example.org")
    assert tab.status == 400
    assert await postbox.empty() == []
    await tab.send(email="ada@example.org", solution=solution_of(tab))
    assert tab.place.startswith("/ui/check-mail")
    assert len(await postbox.empty()) == 1


@pytest.mark.parametrize("email", ["ada@example.org", "nobody@example.org"])
async def test_a_sign_in_link_is_asked_for_on_a_page_of_its_own(postern: Postern, people: People, email: str) -> None:
    await people.with_password(PASSWORD, "ada@example.org")
    await make_mails_busy(postern)
    tab = await asked_for_password(browser(postern), email)
    assert not asks(tab)
    await tab.send(len(tab.page.forms) - 1)
    assert tab.status == 200
    assert asks(tab)
    assert "Security check" in tab.page.text
    assert b"data-sends" in tab.shown.body
    await tab.send(solution=solution_of(tab))
    assert tab.place.startswith("/ui/check-mail")
    # So is the mail once more.
    await tab.open(tab.place.replace("mail=sign_in_link", "mail=verification"))
    await tab.send(1)
    assert asks(tab)
    await tab.send(solution=solution_of(tab))
    assert tab.place.startswith("/ui/check-mail")


async def test_a_sign_in_after_many_failures(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(postern)
    tab = await asked_for_password(browser(postern), ada.email)
    assert asks(tab)
    await tab.send(password=PASSWORD)
    assert tab.status == 400
    assert "__Host-postern_session" not in tab.tabs.cookies
    # A solution counts once, also with a wrong password.
    await tab.send(password="another guess", solution=solution_of(tab))
    assert "The password is incorrect" in tab.page.text
    await tab.send(password=PASSWORD, solution=solution_of(tab))
    assert tab.tabs.session is not None
    # The form of a sign-in that is over leads on, and asks for nothing.
    back = await tab.open("/ui/sign-in")
    assert back.place == "/ui"


async def test_a_device_that_the_person_is_known_by_is_never_asked(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await people.with_password(PASSWORD, "eve@example.org")
    known = browser(postern)
    await (await asked_for_password(known, ada.email)).send(password=PASSWORD)
    device = {name: value for name, value in known.cookies.items() if "device" in name}
    assert device
    await make_sign_ins_busy(postern)
    fresh = browser(postern)
    fresh.cookies = dict(device)
    tab = await asked_for_password(fresh, ada.email)
    assert not asks(tab)
    await tab.send(password=PASSWORD)
    assert fresh.session is not None
    # The device is known for its own person alone.
    await make_sign_ins_busy(postern)
    other = browser(postern)
    other.cookies = dict(device)
    assert asks(await asked_for_password(other, "eve@example.org"))


async def test_without_scripts_an_hour_of_waiting_counts_once_in_a_network(postern: Postern, people: People) -> None:
    clock = SetClock(postern.foundation.clock.now())
    postern = replace(postern, identity=replace(postern.identity, puzzles=replace(postern.identity.puzzles, clock=clock)))
    await make_mails_busy(postern)
    tabs, neighbours = browser(postern), browser(postern)
    for one in (tabs, neighbours):
        tab = await one.tab().open("/ui/register")
        assert "wait one hour" in tab.page.text
        await tab.send(email="bob@example.org", password=PASSWORD)
        assert tab.status == 400
    clock.at += WAIT - timedelta(minutes=1)
    await make_mails_busy(postern)
    early = await (await tabs.tab().open("/ui/register")).send(email="bob@example.org", password=PASSWORD)
    assert early.status == 400
    clock.at += timedelta(minutes=1)
    await make_mails_busy(postern)
    # The ticket is of the network that it was given in.
    await make_mails_busy(postern, "203.0.113.9")
    stranger = Tabs(unlimited(postern, address="203.0.113.9"))
    stranger.cookies = dict(tabs.cookies)
    refused = await (await stranger.tab().open("/ui/register")).send(email="eve@example.org", password=PASSWORD)
    assert refused.status == 400
    done = await (await tabs.tab().open("/ui/register")).send(email="bob@example.org", password=PASSWORD)
    assert done.place.startswith("/ui/check-mail")
    second = await (await neighbours.tab().open("/ui/register")).send(email="eve@example.org", password=PASSWORD)
    assert second.status == 400
    assert [row["email"] for row in people.rows("select email from users")] == ["bob@example.org"]
    # A ticket that is too old is exchanged for a new one.
    old = tabs.cookies["__Host-postern_waiting"]
    clock.at += WAITED_UNTIL
    await make_mails_busy(postern)
    await tabs.tab().open("/ui/register")
    assert tabs.cookies["__Host-postern_waiting"] != old
