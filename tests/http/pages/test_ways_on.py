"""A page that cannot go on has a button that leads to a page."""

import pytest

from core.domain.errors import BadRequest, Conflict, Forbidden, MethodNotAllowed, NotFound, Refusal, Unauthorized
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.realms import ProviderRequired
from core.domain.languages import DEFAULT, Language
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import PageErrors
from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.people import BASE_URL
from tests.http.signing_in import unlimited

SIGN_IN, FORGOTTEN, HOME = ("Sign in", "/ui/sign-in"), ("Request another link", "/ui/forgot-password"), ("Go to your account", "/ui")
PERSON = [("accept", "text/html")]


@pytest.fixture
def browser(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.mark.parametrize(
    ("place", "status", "label", "onward"),
    [
        ("/auth/verify-email?token=x", 400, SIGN_IN[0], f"{BASE_URL}/ui/sign-in"),
        ("/auth/verify-email", 400, *HOME),
        ("/ui/reset-password?token=x", 400, *FORGOTTEN),
        ("/ui/set-password?token=x", 400, *FORGOTTEN),
        ("/ui/sign-in/link?token=x", 400, *SIGN_IN),
        ("/ui/verify-email?token=x", 400, *SIGN_IN),
        ("/ui/verify-email/not-me?token=x", 400, *SIGN_IN),
        ("/ui/invitations/accept?token=x", 400, *SIGN_IN),
        ("/ui/nope", 404, *HOME),
        ("/nothing-here", 404, *HOME),
        ("/ui/sign-out", 405, *HOME),
    ],
)
async def test_a_page_that_cannot_go_on_leads_on(place: str, status: int, label: str, onward: str, browser: Tabs) -> None:
    answer = await browser.client.get(place, headers=PERSON)
    assert answer.status == status
    page = PageReader(answer.body)
    assert page.links == [onward]
    assert f"{label} {shipped_pages().text(DEFAULT)('common.product')}" in page.text
    arrived = await browser.tab().open(onward.removeprefix(BASE_URL))
    assert arrived.status == 200
    assert arrived.page.forms


async def test_what_is_refused_by_its_method_says_so(client: Client) -> None:
    """The page must not speak of a mail, since the request came by none."""
    answer = await client.get("/ui/sign-out")
    assert answer.header("allow") == "POST, OPTIONS"
    text = PageReader(answer.body).text
    assert "use the button there" in text
    assert "mail" not in text.replace("e-mail", "")
    unknown = PageReader((await client.get("/ui/nope")).body).text
    assert "Page not found Check the URL" in unknown
    assert "mail" not in unknown


REFUSALS: list[Refusal] = [
    *(BadRequest(), Unauthorized(), Forbidden(), NotFound(), Conflict(), MethodNotAllowed(("POST",))),
    *(LinkRefused("", words="link_used"), BadRequest(words="invitation_accepted"), BadRequest(words="invitation_unknown")),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: f"{type(one).__name__} {one.words}")
async def test_no_page_is_a_dead_end(refusal: Refusal, lonely_postern: Postern) -> None:
    """Each refusal has a button, or sends the person back to the application."""
    text = shipped_pages().text(DEFAULT)
    elsewhere = (
        *(text("authorize.begin_again"), text("authorize.refused", request=""), text("authorize.closed")),
        # Whoever has a set-up link asks whoever sent it.
        text("setup.advice.otherwise"),
    )
    pages = [one for one in build_application(lonely_postern, SETTINGS).endpoints if isinstance(one.errors, PageErrors)]
    assert len(pages) > 100
    for one in pages:
        told = PageReader(one.errors.value(refusal, lonely_postern.foundation.clock.now(), Language.ENGLISH))
        assert told.links or any(words in told.text for words in elsewhere), one


async def test_people_of_a_provider_are_led_to_the_sign_in_page(lonely_postern: Postern) -> None:
    (page,) = [one for one in build_application(lonely_postern, SETTINGS).endpoints if str(one) == "GET /ui/reset-password"]
    refused = ProviderRequired()
    assert PageReader(page.errors.value(refused, lonely_postern.foundation.clock.now(), Language.ENGLISH)).links == ["/ui/sign-in"]


async def test_the_front_door_leads_people_to_their_account_and_programs_to_the_documentation(client: Client) -> None:
    person = await client.request("GET", "/", headers=[("accept", "text/html,application/xhtml+xml")])
    program = await client.request("GET", "/", headers=[("accept", "*/*")])
    assert [(answer.status, answer.header("location")) for answer in (person, program)] == [(302, "/ui"), (302, "/docs")]
    assert "accept" in (person.header("vary") or "").lower()
