"""Flows with another purpose than our own pages: the sign-in keeps to their demands, and a form never redirects to another site."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowPurpose, Prompt, Wanted
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BROWSER, BROWSER_OR_NOBODY, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoints, InvalidDeclaration
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.kit.declaring import WITH_FORM, page
from entrypoints.http.pages.kit.flows import CONTINUATIONS, AnyCall, Page, begin, own_place
from entrypoints.http.routes import ROUTES
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.http.signing_in import UNLIMITED as SETTINGS

APPLICATION = "com.example.app:/callback?code=1&state=<x>"


class AskedFlow(msgspec.Struct, frozen=True):
    prompt: str = ""
    max_age: int | None = None
    second_factor: bool = False
    login_hint: str = ""
    ui_locales: str = ""


@page.get("/ask", caller=BROWSER_OR_NOBODY, limit=UNLIMITED)
async def ask(call: Call[None, AskedFlow, None, Caller | None], postern: Postern) -> Page:
    """Ask to be signed in, as an application does"""
    asked = call.query
    wanted = Wanted(
        login_hint=asked.login_hint,
        prompt=Prompt(asked.prompt) if asked.prompt else None,
        max_age=asked.max_age,
        second_factor=asked.second_factor,
        ui_locales=tuple(asked.ui_locales.split()),
        service_name="Shop",
    )
    return await begin(call, postern, FlowPurpose.AUTHORIZE, {"state": "x"}, wanted)


@page.get("/private", caller=BROWSER, limit=UNLIMITED, policy=WITH_FORM)
async def private(call: Call[None, AskedFlow], postern: Postern) -> bytes:
    """A page for people who are signed in"""
    token = token_for(BROWSER, call.request, postern)
    return f'<form method="post" action="/private"><input name="form_token" value="{token}"></form>'.encode()


@page.post("/private", caller=BROWSER, limit=UNLIMITED, policy=WITH_FORM)
async def send_private(call: Call[BoundForm], _postern: Postern) -> bytes:
    """Its form"""
    return call.caller.email.address.encode()


@pytest.fixture(autouse=True)
def authorizing() -> Iterator[list[tuple[Flow, Caller]]]:
    """Notes the calls of the continuation."""
    before = CONTINUATIONS.get(FlowPurpose.AUTHORIZE)
    called: list[tuple[Flow, Caller]] = []

    async def authorize(_call: AnyCall, _postern: Postern, flow: Flow, caller: Caller) -> Page:
        called.append((flow, caller))
        return redirect(APPLICATION)

    CONTINUATIONS[FlowPurpose.AUTHORIZE] = authorize
    yield called
    if before is None:
        del CONTINUATIONS[FlowPurpose.AUTHORIZE]
    else:
        CONTINUATIONS[FlowPurpose.AUTHORIZE] = before


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(Client(PosternApplication(postern, SETTINGS, Endpoints([*ROUTES, ask, private, send_private]))))


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def signed_in(tabs: Tabs, person: Person) -> None:
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=person.email)
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui"


async def test_a_form_that_leads_to_an_application_is_a_page_that_leaves(tabs: Tabs, ada: Person, authorizing: list[Any]) -> None:
    tab = await tabs.tab().open("/ask?login_hint=ada@example.org")
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert "Sign in to Shop" in tab.page.text
    assert tab.page.inputs["email"]["value"] == ada.email
    await tab.send()
    await tab.send(password=PASSWORD)
    assert (tab.status, tab.shown.header("location")) == (200, None)
    assert (tab.page.refresh, tab.page.links) == (APPLICATION, [APPLICATION])
    ((flow, caller),) = authorizing
    assert (flow.request, flow.session, caller.user) == ({"state": "x"}, caller.session, ada.user)
    # The person is signed in now, so the next application is answered at once, by an ordinary redirect.
    answer = await tabs.request("GET", "/ask")
    assert (answer.status, answer.header("location")) == (303, APPLICATION)
    assert authorizing[1][1].session == caller.session


@pytest.mark.parametrize("query", ["prompt=login", "max_age=60", "max_age=0", "prompt=login&login_hint=ada@example.org"])
async def test_who_must_prove_themselves_again_does_so_in_the_same_session(
    query: str, tabs: Tabs, people: People, ada: Person, authorizing: list[Any]
) -> None:
    await signed_in(tabs, ada)
    people.change("update sessions set proved_at = proved_at - interval '2 minutes'")
    tab = await tabs.tab().open(f"/ask?{query}")
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    assert tab.page.inputs["email"]["value"] == ada.email
    await tab.send(password=PASSWORD)
    assert tab.page.refresh == APPLICATION
    ((flow, caller),) = authorizing
    assert flow.wanted.is_met(caller.proved, flow.created_at, flow.created_at)
    assert len(people.rows("select from sessions")) == 1


async def test_a_proof_that_is_young_enough_is_enough(tabs: Tabs, ada: Person) -> None:
    await signed_in(tabs, ada)
    assert (await tabs.request("GET", "/ask?max_age=3600")).header("location") == APPLICATION


async def test_a_second_factor_is_wanted_also_on_a_trusted_device(tabs: Tabs, people: People, ada: Person, authorizing: list[Any]) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    await tab.send(code=totp.now(), trust_device="yes")
    del tabs.cookies["__Host-postern_session"]
    await signed_in(tabs, ada)
    people.change("update mfa_secrets set last_step = last_step - 120")
    await tab.open("/ask?second_factor=1")
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=totp.now())
    assert tab.page.refresh == APPLICATION
    (_, caller) = authorizing[-1]
    assert caller.authentication_methods == ("pwd", "otp", "mfa")


async def test_who_has_no_second_factor_goes_on_without(tabs: Tabs, ada: Person) -> None:
    tab = await tabs.tab().open("/ask?second_factor=1")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.page.refresh == APPLICATION


async def test_whoever_wants_an_account_begins_with_registering(tabs: Tabs) -> None:
    assert (await tabs.tab().open("/ask?prompt=create")).place.startswith("/ui/register?flow=")


async def test_another_account_is_asked_for_by_its_address(tabs: Tabs, ada: Person) -> None:
    await signed_in(tabs, ada)
    people_chooses = await tabs.request("GET", "/ask?prompt=select_account")
    # The continuation shows the choice of accounts, with the signed-in person among them.
    assert people_chooses.header("location") == APPLICATION
    await tabs.request("POST", "/ui/sign-out", {"form_token": "x"})
    tabs.cookies.pop("__Host-postern_session")
    assert (await tabs.tab().open("/ask?prompt=select_account")).place.startswith("/ui/sign-in?flow=")


async def test_the_pages_speak_the_language_that_the_flow_asks_for(tabs: Tabs) -> None:
    tab = await tabs.tab().open("/ask?ui_locales=xx+de")
    assert tab.shown.header("content-language") == "de"


async def test_a_page_for_people_who_are_signed_in(tabs: Tabs, ada: Person) -> None:
    tab = await tabs.tab().open("/private?max_age=5")
    assert tab.place == "/ui/sign-in?to=/private%3Fmax_age%3D5"
    # This page is not below /ui, so the way back leads to the start page of /ui.
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui"
    await tab.open("/private")
    form = tab.page.forms[0]
    await tab.send()
    assert tab.shown.body == ada.email.encode()
    # A token of a session that has ended, or of no session. Behind the token stands whose it is, which opens nothing.
    for token in ("", "0", "ä", "x" + form.fields["form_token"][1:]):
        assert (await tabs.request("POST", "/private", {"form_token": token})).status == 403
    assert (await Tabs(tabs.client).request("POST", "/private", form.fields)).header("location") == "/ui/sign-in?to=/ui"


@pytest.mark.parametrize("place", ["/ui/../private", "/ui/..", "/ui/x/../../private", "/ui/./../private?a=b", "/ui/..#a", "/ui/../?a"])
@pytest.mark.parametrize("dot", [".", "%2e", "%2E"])
def test_no_place_of_ours_leaves_the_pages_by_dots(place: str, dot: str) -> None:
    """Browsers read these segments, encoded or not, as the parent folder."""
    assert own_place(place.replace(".", dot)) == "/ui"
    assert own_place(place.replace("..", f".{dot}")) == "/ui"


@pytest.mark.parametrize("place", ["/ui/a..b", "/ui/.well-known", "/ui/...", "/ui/a?to=/../b", "/ui?to=/..", "/ui/a#/../b", "/ui/%2e%2ea"])
def test_other_dots_are_part_of_a_place(place: str) -> None:
    assert own_place(place) == place


def test_a_page_whose_form_is_bound_to_nothing_does_not_start() -> None:
    async def handler(_call: Call[AskedFlow], _postern: Postern) -> bytes:
        return b""

    with pytest.raises(InvalidDeclaration, match="BoundForm"):
        page.post("/x", caller=BROWSER, limit=UNLIMITED)(handler)


async def test_a_flow_is_completed_once(tabs: Tabs, postern: Postern, ada: Person, authorizing: list[Any]) -> None:
    await signed_in(tabs, ada)
    await tabs.request("GET", "/ask")
    ((flow, _),) = authorizing
    assert [await postern.identity.flows.complete(flow) for _ in range(3)] == [True, False, False]


async def test_a_code_without_a_password_before_it_signs_nobody_in(tabs: Tabs, people: People, ada: Person) -> None:
    await enable_mfa(tabs.client, people, ada)
    tab = await tabs.tab().open("/ask")
    await tab.send(email=ada.email)
    form = tab.page.forms[0].fields
    sent = {"flow": form["flow"], "form_token": form["form_token"], "code": "123456"}
    assert (await tabs.request("POST", "/ui/sign-in/second-factor", sent)).status == 400
    assert tabs.session is None
    # Without an address no mail is sent either.
    begun = await tabs.tab().open("/ask")
    hidden = begun.page.forms[0].fields
    again = await tabs.request("POST", "/ui/check-mail/resend", {"flow": hidden["flow"], "form_token": hidden["form_token"]})
    assert again.status == 303


async def test_the_code_of_a_double_click_gets_the_same_session(tabs: Tabs, people: People, ada: Person) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    form = tab.page.forms[0]
    fields = {**form.fields, "code": totp.now()}
    assert (await tabs.request("POST", form.action, fields)).status == 303
    kept = tabs.cookies.pop("__Host-postern_session")
    assert (await tabs.request("POST", form.action, fields)).status == 303
    assert tabs.session == kept
    # The address form of a finished flow leads on.
    sent = {"flow": form.fields["flow"], "form_token": form.fields["form_token"], "email": "x@example.org"}
    assert (await tabs.request("POST", "/ui/sign-in", sent)).header("location") == "/ui"
