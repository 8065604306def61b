"""Common properties of all account pages: the people who get there, and the look of an empty page."""

import pytest

from entrypoints.http.application import PAGES
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.browsers import BROWSER
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.page_addresses import PASSWORD
from entrypoints.http.pages.account import APPLICATIONS
from tests.http.browsing import Tabs
from tests.http.pages.account.conftest import COOKIE, AccountPagesScene, is_account_page

SECTIONS = (
    "/ui",
    "/ui/profile",
    "/ui/password",
    "/ui/second-factor",
    "/ui/devices",
    "/ui/sessions",
    "/ui/sign-ins",
    "/ui/organizations",
    "/ui/applications",
    "/ui/requests",
)
OTHERS = ("/ui/organizations/invitations", "/ui/join-requests", "/ui/profile/email", "/ui/profile/details", "/ui/profile/picture")
SOME_ID = "0199d3a0-0000-7000-8000-000000000001"
FORMS = [one for one in PAGES if one.caller is BROWSER and one.method == "POST" and "pages.account" in one.handler.__module__]


async def test_every_section_is_there_with_nothing_in_it(home: AccountPagesScene) -> None:
    for path in (*SECTIONS, *OTHERS):
        tab = await home.open(path)
        assert (tab.place, tab.status) == (path, 200)
        assert is_account_page(tab.shown)
        assert "ada@example.org" in tab.page.text
        assert tab.page.forms[0].action == "/ui/sign-out"
        assert set(SECTIONS) <= set(tab.page.links)


async def test_nobody_signed_in_is_led_to_the_sign_in_page_and_back(home: AccountPagesScene) -> None:
    stranger = Tabs(home.client).tab()
    await stranger.open("/ui/sessions?page=2")
    assert stranger.place == "/ui/sign-in?to=/ui/sessions%3Fpage%3D2"


async def test_a_page_takes_two_round_trips_at_the_most(home: AccountPagesScene) -> None:
    home.tenants.join(home.ada, home.tenants.add("acme"))
    home.device()
    for path in (*SECTIONS, *OTHERS):
        await home.open(path)
        await home.open(path)  # the first time, a key of the installation may be fetched
        # The applications of a person and the keys for their APIs are of two families, each with a look-up of its own. So are the
        # account and the rules of the person's organizations for a new password.
        assert home.log.events("request")[-1]["db_round_trips"] <= (3 if path in {APPLICATIONS, PASSWORD} else 2), path


def path_of(one: Endpoint) -> str:
    return one.path.format(
        device_id=SOME_ID,
        passkey_id=SOME_ID,
        session_id=SOME_ID,
        invitation_id=SOME_ID,
        service_id=SOME_ID,
        resource_id=SOME_ID,
        request_id=SOME_ID,
        user_key_id=SOME_ID,
        org_slug="acme",
        service_slug="shop",
        provider="codehost",
    )


@pytest.mark.parametrize("one", FORMS, ids=str)
async def test_a_form_without_the_token_of_this_session_does_nothing(one: Endpoint, home: AccountPagesScene) -> None:
    """A token from another person's browser does not work either, and the page says that it is another account's."""
    eve = home.people.add("eve@example.org")
    theirs = await home.browser(eve).tab().open("/ui")
    for token in ("", "0" * 64, theirs.page.forms[0].fields["form_token"]):
        answered = {"ownership": "decline", "passkey-offer": "later"}.get(one.path.rpartition("/")[2], "accept")
        named = {"form": SOME_ID, "flow": SOME_ID, "organization": SOME_ID}
        fields = {"form_token": token, **named, "invitation": "x", "answer": answered, "language": "de"}
        answer = await home.tabs.request("POST", path_of(one), fields, with_file=isinstance(one.accepts, FormWithFile))
        is_theirs = token == theirs.page.forms[0].fields["form_token"]
        assert answer.status == (409 if is_theirs else 403), one
        assert (b"belongs to another account" if is_theirs else b"out of date") in answer.body
    assert home.told() == []


async def test_a_form_of_another_site_does_nothing(home: AccountPagesScene) -> None:
    tab = await home.open("/ui/sessions")
    token = tab.page.forms[0].fields["form_token"]
    elsewhere = home.elsewhere()
    headers = [("cookie", f"{COOKIE}={home.tabs.cookies[COOKIE]}"), ("content-type", "application/x-www-form-urlencoded")]
    for site in ("cross-site", "same-site", "none"):
        answer = await home.client.request(
            "POST", "/ui/sessions/end-others", body=f"form_token={token}".encode(), headers=[*headers, ("sec-fetch-site", site)]
        )
        assert answer.status == 403
    assert home.lives(elsewhere)


async def test_signing_out_is_on_every_page(home: AccountPagesScene) -> None:
    tab = await home.open("/ui/devices")
    await tab.send(0)
    assert tab.place == "/ui/signed-out"
    assert not home.lives(home.ada)
    assert COOKIE not in home.tabs.cookies


async def test_what_a_link_says_has_been_done_is_one_of_ours(home: AccountPagesScene) -> None:
    said = await home.open("/ui/sessions?done=ended")
    assert "You are signed out of the session." in said.page.text
    for strange in ("nothing", "", "x" * 500, "%3Cb%3E", "title"):
        tab = await home.open(f"/ui/sessions?done={strange}")
        assert tab.status == 200
        assert b'role="status"' not in tab.shown.body


async def test_names_of_any_length_and_direction_are_shown_as_they_are(home: AccountPagesScene) -> None:
    long, arabic, markup = "w" * 100, "متجر الكتب القديمة", "<b>&\"'"
    for slug, name in (("long", long), ("arabic", arabic), ("markup", markup)):
        home.tenants.join(home.ada, home.tenants.add(slug, name=name))
        home.device(name=name)
    for path in ("/ui/organizations", "/ui/devices"):
        tab = await home.open(path)
        assert all(name in tab.page.text for name in (long, arabic, markup))
        assert b"<b>" not in tab.shown.body
    assert arabic in (await home.open("/ui/organizations/arabic")).page.text
