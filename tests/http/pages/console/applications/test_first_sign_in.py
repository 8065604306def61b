"""The first sign-in appears: only what the browser does that waits, for ten minutes, and on one page of one person."""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import pytest
import trio

from adapters.postgres.upkeep.housekeeping import sweep
from core.domain.federation.authorization_refusals import NewAwaitedSignIn, may_be_added_by_a_press
from core.domain.identifiers import AwaitedSignInId, OrganizationId, SessionId, UserId
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.http.browsing import Tab, Tabs
from tests.http.federation.arriving import AUTHORIZE, CHALLENGE, VERIFIER
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.applications.test_making import SECRET
from tests.http.pages.console.conftest import ConsoleScene
from tests.patience import PATIENCE

MARK = "__Host-postern_awaits"
HERE = "http://localhost:3001/elsewhere"
REGISTERED = "http://localhost:3000/callback"


@pytest.fixture
async def board(console: ConsoleScene) -> str:
    """Made by the form, so that its page waits."""
    return await made(console, "Board", "web", REGISTERED, "members")


def waiting(console: ConsoleScene) -> list[dict[str, Any]]:
    return console.people.rows("select id, user_id, session_id, refusals, ends_at - began_at as lasts from awaited_sign_ins")


def asking(console: ConsoleScene, **changes: str | None) -> str:
    (service,) = console.people.rows("select coalesce(kept_client_id, client_id::text) as id from services where name = 'Board'")
    return asking_of(str(service["id"]), **changes)


def asking_of(client: str, **changes: str | None) -> str:
    asked: Mapping[str, str | None] = {
        "client_id": client,
        "redirect_uri": REGISTERED,
        "response_type": "code",
        "scope": "openid email",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return f"{AUTHORIZE}?{urlencode({name: value for name, value in asked.items() if value is not None})}"


async def kept(console: ConsoleScene, number: int = 1) -> list[Any]:
    """The refusals, once the recorder has written this many."""
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: console.postern.federation.refusal_recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while len(found := console.people.rows("select id, received from authorization_refusals order by id")) < number:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    return found


async def now(console: ConsoleScene, board: str, *, tab: Tab | None = None) -> str:
    (row,) = waiting(console)
    tab = await (tab or console.tab).open(f"/ui/o/acme{board}/first-sign-in/now?page={row['id']}")
    assert tab.status == 200
    return tab.shown.body.decode()


async def sign_in(console: ConsoleScene, secret: str, client: str = "") -> None:
    """Ada allows the application, and it exchanges its code."""
    if not client:
        (service,) = console.people.rows("select coalesce(kept_client_id, client_id::text) as id from services where name = 'Board'")
        client = str(service["id"])
    answer = await console.tabs.request("GET", asking_of(client))
    tab = Tab(console.tabs)
    tab.place, tab.answer = "", answer
    if answer.status == 303:
        await tab.open(str(answer.header("location")))
        await tab.send(0, answer="allow")
    leaves = next(link for link in (tab.page.refresh, *tab.page.links) if link and link.startswith(REGISTERED))
    code = dict(parse_qsl(urlsplit(leaves).query))["code"]
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REGISTERED,
        "code_verifier": VERIFIER,
        "client_id": client,
        "client_secret": secret,
    }
    form = [("content-type", "application/x-www-form-urlencoded")]
    (await console.client.request("POST", "/oauth/token", body=urlencode(fields).encode(), headers=form)).ok()


async def test_the_page_behind_the_making_waits_and_says_how_it_looks_without_a_script(console: ConsoleScene, board: str) -> None:
    (row,) = waiting(console)
    assert (row["user_id"], row["session_id"], row["refusals"]) == (console.ada.user, console.ada.session, [])
    assert row["lasts"].total_seconds() == 600
    body = console.tab.shown.body.decode()
    assert f'data-awaits="/ui/o/acme{board}/first-sign-in/now?page={row["id"]}"' in body
    assert f"/ui/o/acme{board}/first-sign-in?page={row['id']}" in console.tab.page.links
    assert "connect-src 'self'" in str(console.tab.shown.header("content-security-policy"))
    assert console.tabs.cookies[MARK] == "yes"
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in?page={row['id']}")
    assert "Waiting for the first sign-in" in tab.page.text


async def test_a_mistake_appears_with_the_press_that_mends_it(console: ConsoleScene, board: str) -> None:
    await console.tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console)
    (row,) = waiting(console)
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in?page={row['id']}")
    assert HERE in tab.page.text
    await console.submit(f"{board}/first-sign-in/address")
    assert console.tab.place.endswith("&done=saved")
    assert console.people.rows("select redirect_uris from services where name = 'Board'") == [{"redirect_uris": [REGISTERED, HERE]}]
    assert f"Add {HERE}" not in console.tab.page.text
    # The same press once more changes nothing.
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in?page={row['id']}")
    assert not any(form.action.endswith("/address") for form in tab.page.forms)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/callback",
        "http://evil.example/callback",
        "https://localhost/callback",
        "http://localhost.evil.example/callback",
        "http://localhost@evil.example/",
        "http://127.0.0.1.evil.example/",
        "com.evil.app:/callback",
    ],
)
async def test_a_foreign_address_is_text_that_whoever_wants_it_has_to_type(console: ConsoleScene, board: str, address: str) -> None:
    await console.tabs.request("GET", asking(console, redirect_uri=address))
    (refusal,) = await kept(console)
    shown = await now(console, board)
    assert "if it is yours" in shown or not refusal["received"]
    assert "<form" not in shown
    # A form that somebody builds with it is answered as one about nothing.
    (row,) = waiting(console)
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in")
    token = tab.page.forms[-1].fields["form_token"]
    fields = {"form_token": token, "page": str(row["id"]), "refusal": str(refusal["id"])}
    answer = await console.tabs.request("POST", f"/ui/o/acme{board}/first-sign-in/address", fields)
    assert answer.status == 404
    assert console.people.rows("select redirect_uris from services where name = 'Board'") == [{"redirect_uris": [REGISTERED]}]


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("http://localhost:3001/callback", True),
        ("http://127.0.0.1:8080/", True),
        ("http://[::1]/back", True),
        ("http://localhost", True),
        ("https://localhost/", False),
        ("http://127.0.0.1@evil.example/", False),
        ("http://localhost:99999/", False),
        ("http://0.0.0.0/", False),
        ("http://10.0.0.1/", False),
        ("http://127.0.0.2:3000/callback", False),
        ("http://[::ffff:127.0.0.1]/", False),
        ("http://[0:0:0:0:0:0:0:1]/", False),
        ("http://LOCALHOST:3000/callback", False),
        ("http://localhost:0/", False),
        ("http://localhost/a/../b", False),
        ("http://2130706433/", False),
        ("http://localhost\\@evil.example/", False),
        ("javascript:alert(1)", False),
    ],
)
def test_only_http_on_this_machine_is_added_by_a_press(address: str, *, is_here: bool) -> None:
    assert may_be_added_by_a_press(address) is is_here


@pytest.mark.parametrize("address", ["http://127.0.0.2:3000/callback", "http://localhost/a/../b"])
async def test_the_page_offers_no_press_that_registration_refuses(console: ConsoleScene, board: str, address: str) -> None:
    await console.tabs.request("GET", asking(console, redirect_uri=address))
    (refusal,) = await kept(console)
    assert refusal["received"] == address
    shown = await now(console, board)
    assert address in shown
    assert "<form" not in shown
    token = await console.people.token(console.ada)
    fields = {"redirect_uris": [REGISTERED, address]}
    answer = await console.client.request("PATCH", f"/api/organizations/acme/services/{board.rpartition('/')[2]}", body=fields, token=token)
    assert answer.status == 400


async def test_the_sign_in_appears_with_the_person_and_the_claims_and_then_it_is_over(console: ConsoleScene) -> None:
    board = await made(console, "Board", "web", REGISTERED, "members")
    secret = SECRET.search(console.tab.page.text)
    assert secret is not None
    assert "data-over" not in await now(console, board)
    await sign_in(console, secret[0])
    shown = await now(console, board)
    assert "data-over" in shown
    (ada,) = console.people.rows("select email from users where id = %s", console.ada.user)
    assert f"{ada['email']} signed in" in shown
    assert "<code>openid</code>" in shown
    assert "<code>email</code>" in shown
    assert str(console.ada.user) in shown


async def test_who_may_not_list_end_users_reads_that_somebody_has_signed_in(console: ConsoleScene) -> None:
    board = await made(console, "Board", "web", REGISTERED, "members")
    secret = SECRET.search(console.tab.page.text)
    assert secret is not None
    person = console.people.add("maker@example.org")
    console.tenants.join(person, console.acme, console.tenants.role(console.acme, "makers", [Capability.SERVICES_MANAGE]))
    own = console.ada
    console.ada, console.tabs = person, console.browser(person)
    tab = console.tabs.tab()
    await tab.open(f"/ui/o/acme{board}/first-sign-in")
    console.people.change("delete from awaited_sign_ins")
    assert tab.status == 200, tab.page.text
    await tab.send(next(number for number, form in enumerate(tab.page.forms) if form.action.endswith("/first-sign-in")))
    assert "Waiting for" in tab.page.text
    await sign_in(console, secret[0])
    shown = await now(console, board, tab=tab)
    assert "A sign-in succeeded" in shown
    assert "maker@example.org" not in shown
    assert str(person.user) not in shown
    console.ada = own


async def test_requests_of_another_browser_and_for_another_application_do_not_show(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - its page waits
) -> None:
    other = console.colleague("admin")
    for tabs in (other.tabs, Tabs(console.client)):
        tabs.cookies[MARK] = "yes"
        await tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console, 2)
    assert waiting(console)[0]["refusals"] == []
    # In the same browser, for an application on whose page nobody waits.
    mine = waiting(console)[0]["id"]
    await made(console, "Shop", "spa", REGISTERED)
    console.people.change("update awaited_sign_ins set id = %s, service_id = (select id from services where name = 'Board')", mine)
    (shop,) = console.people.rows("select client_id::text as id from services where name = 'Shop'")
    await console.tabs.request("GET", asking(console, client_id=str(shop["id"]), redirect_uri=HERE))
    await kept(console, 3)
    assert waiting(console)[0]["refusals"] == []


async def test_nobody_else_sees_what_the_page_has_seen(console: ConsoleScene, board: str) -> None:
    await console.tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console)
    (row,) = waiting(console)
    part = f"first-sign-in/now?page={row['id']}"
    colleague = await console.colleague("admin").open(f"/ui/o/acme{board}/{part}")
    assert "localhost:3001" not in colleague.shown.body.decode()
    assert "data-over" in colleague.shown.body.decode()
    assert (await console.colleague().open(f"/ui/o/acme{board}/{part}")).status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(f"/ui/o/acme{board}/{part}")).status == 403
    # The stranger's own organization has no such application.
    at_home = await stranger.open(f"/ui/o/globex{board}/{part}")
    assert "localhost:3001" not in at_home.shown.body.decode()
    # Ada herself, in another session of hers.
    elsewhere = await console.browser(console.elsewhere()).tab().open(f"/ui/o/acme{board}/{part}")
    assert "localhost:3001" not in elsewhere.shown.body.decode()


async def test_a_second_page_of_one_person_ends_the_first(
    console: ConsoleScene,
    board: str,
) -> None:
    (first,) = waiting(console)
    await made(console, "Shop", "spa", REGISTERED)
    (second,) = waiting(console)
    assert second["id"] != first["id"]
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in/now?page={first['id']}")
    assert "This page stopped waiting: another page is waiting instead" in tab.shown.body.decode()
    assert "data-over" in tab.shown.body.decode()


async def test_the_page_says_when_it_has_stopped_and_waits_again_when_asked(console: ConsoleScene, board: str, postern: Postern) -> None:
    await console.tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console)
    (row,) = waiting(console)
    assert len(row["refusals"]) == 1
    console.people.change(
        "update awaited_sign_ins set began_at = began_at - interval '11 minutes', ends_at = ends_at - interval '11 minutes'"
    )
    shown = await now(console, board)
    assert "No sign-in was detected. This page stopped waiting" in shown
    # Whose browser sent which request is told no longer, and then it is gone.
    assert "localhost:3001" not in shown
    assert await sweep(postern.foundation.pool, "PastAwaitedSignIns").delete_expired(10) == 1
    assert waiting(console) == []
    tab = await console.tab.open(f"/ui/o/acme{board}/first-sign-in?page={row['id']}")
    await tab.send(next(number for number, form in enumerate(tab.page.forms) if form.action.endswith("/first-sign-in")))
    assert "Waiting for the first sign-in" in tab.page.text
    assert len(waiting(console)) == 1


async def test_only_a_browser_that_waits_leaves_its_session_beside_a_refusal(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - its page waits
) -> None:
    """The mark alone keeps nothing, and a session without the mark keeps nothing."""
    del console.tabs.cookies[MARK]
    await console.tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console)
    assert waiting(console)[0]["refusals"] == []
    console.people.change("delete from awaited_sign_ins")
    console.tabs.cookies[MARK] = "yes"
    await console.tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console, 2)
    assert waiting(console) == []


async def test_a_page_keeps_its_newest_mistakes(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - its page waits
) -> None:
    for path in range(8):
        await console.tabs.request("GET", asking(console, redirect_uri=f"http://localhost/{path}"))
    found = await kept(console, 8)
    newest = [one["id"] for one in reversed(found)][:5]
    assert waiting(console)[0]["refusals"] == newest


async def test_applications_that_nobody_signs_in_to_by_a_browser_wait_for_nothing(console: ConsoleScene) -> None:
    await made(console, kind="machine", addresses="")
    assert waiting(console) == []
    assert "data-awaits" not in console.tab.shown.body.decode()


async def test_only_a_form_of_ours_begins_to_wait(console: ConsoleScene, board: str) -> None:
    console.people.change("delete from awaited_sign_ins")
    assert (await console.tabs.request("POST", f"/ui/o/acme{board}/first-sign-in", {"form_token": "x"})).status in {400, 403}
    await console.tab.open(f"/ui/o/acme{board}/first-sign-in")
    assert waiting(console) == []


async def test_of_pages_that_begin_at_once_one_waits_and_none_fails(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - it makes the application
    postern: Postern,
) -> None:
    new = NewAwaitedSignIn(
        id=AwaitedSignInId(uuid4()),
        user=UserId(console.ada.user),
        session=SessionId(console.ada.session),
        organization=OrganizationId(console.acme.id),
        service_slug="board",
        began_at=postern.foundation.clock.now(),
    )
    store, began = postern.federation.awaited_sign_ins.store, []

    async def begin(one: NewAwaitedSignIn) -> None:
        began.append(await store.begin(one))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(begin, replace(new, id=AwaitedSignInId(uuid4())))
    assert began == [True] * 8
    assert len(waiting(console)) == 1
    # Nobody waits for an application that is not there, or in a session that is gone.
    assert not await store.begin(replace(new, service_slug="none"))
    console.people.change("update sessions set revoked_at = now() where id = %s", console.ada.session)
    assert not await store.begin(new)


async def test_what_waits_ends_with_its_session(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - its page waits
) -> None:
    console.people.change("delete from sessions where id = (select session_id from awaited_sign_ins)")
    assert waiting(console) == []


def trips(console: ConsoleScene, route: str) -> int:
    """The round trips of the last request."""
    line = console.log.events("request")[-1]
    assert line["route"] == route
    return int(line["db_round_trips"])


async def test_a_refused_request_costs_as_many_round_trips_whether_somebody_waits_or_not(console: ConsoleScene, board: str) -> None:  # noqa: ARG001 - its page waits
    found = []
    for change in ("", "delete from awaited_sign_ins", "no mark"):
        if change == "no mark":
            del console.tabs.cookies[MARK]
        elif change:
            console.people.change(change)
        for asked in (asking(console, redirect_uri=HERE), asking(console, response_type="token")):
            await console.tabs.request("GET", asked)
            found.append(trips(console, AUTHORIZE))
    assert found == found[:2] * 3


async def test_without_the_mark_nothing_looks_at_who_waits(
    console: ConsoleScene,
    board: str,  # noqa: ARG001 - its page waits
) -> None:
    """A statement about who waits would fail, since there is nothing of that name."""
    console.people.change("alter table awaited_sign_ins rename to elsewhere")
    try:
        del console.tabs.cookies[MARK]
        await console.tabs.request("GET", asking(console, redirect_uri=HERE))
        assert len(await kept(console)) == 1
        await Tabs(console.client).request("GET", asking(console, redirect_uri=HERE))
        assert len(await kept(console, 2)) == 2
    finally:
        console.people.change("alter table elsewhere rename to awaited_sign_ins")


async def test_fifty_pages_that_wait_cost_one_look_each_and_see_nothing_of_each_other(console: ConsoleScene, board: str) -> None:
    pages = []
    for number in range(50):
        colleague = console.colleague("admin")
        tab = await colleague.open(f"/ui/o/acme{board}/first-sign-in")
        await tab.send(next(place for place, form in enumerate(tab.page.forms) if form.action.endswith("/first-sign-in")))
        assert "Waiting for" in tab.page.text, number
        pages.append((tab, tab.place.replace("/first-sign-in?", "/first-sign-in/now?")))
    assert len(waiting(console)) == 51
    await pages[0][0].tabs.request("GET", asking(console, redirect_uri=HERE))
    await kept(console)
    costs = []
    for number, (tab, part) in enumerate(pages):
        answer = await tab.tabs.request("GET", part)
        assert (HERE in answer.body.decode()) == (number == 0)
        costs.append(trips(console, "/ui/o/{org_slug}/applications/{service_slug}/first-sign-in/now"))
    # The caller, and what has come. Only where there is a mistake, the record is read, too.
    assert set(costs[1:]) == {2}
    assert costs[0] <= 4


@pytest.mark.parametrize("name", ["Mary <b>\u202eyram\u202c", "<script>alert(1)</script>\u2066x\u2069"])
async def test_markup_and_marks_of_direction_in_names_are_text(console: ConsoleScene, name: str) -> None:
    console.people.change("update users set name = %s where id = %s", name, console.ada.user)
    board = await made(console, "Board", "web", REGISTERED, "members")
    secret = SECRET.search(console.tab.page.text)
    assert secret is not None
    console.people.change("update all_services set name = '<b>Board</b>' where name = 'Board'")
    (service,) = console.people.rows("select client_id::text as id from services")
    await console.tabs.request("GET", asking_of(str(service["id"]), redirect_uri="http://localhost/\u202e<b>"))
    await kept(console)
    shown = [await now(console, board)]
    await sign_in(console, secret[0], client=str(service["id"]))
    shown.append(await now(console, board))
    assert "signed in" in shown[1]
    user = console.ada.user
    for place in (f"/people/{user}/why", f"{board}/who", f"/people/users/{user}/opens", f"{board}/first-sign-in"):
        tab = await console.at(place)
        assert tab.status == 200, place
        shown.append(tab.shown.body.decode())
    for body in shown:
        assert "<script>alert" not in body
        assert "<b>\u202e" not in body
        assert "<b>Board" not in body
        assert name not in body
    # What a name turns ends with the name, as a profile keeps it.
    assert [place for place in (2, 4) if escape(name) not in shown[place]] == []
