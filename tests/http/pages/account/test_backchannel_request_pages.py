"""`/ui/requests`: applications ask for a person who is elsewhere, and the person answers, as a browser without scripts does."""

from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.federation.backchannel.asking import READ, Afar
from tests.http.federation.relying import claims_of, oauth
from tests.http.people import People
from tests.http.signing_in import unlimited

PAGE = "/ui/requests"


@pytest.fixture
async def afar(postern: Postern, people: People, log: CapturedLog) -> Afar:
    afar = Afar(postern, people, unlimited(postern), log)
    await afar.turn("on")
    return afar


async def opened(afar: Afar, *, age: float = 0) -> Tab:
    """The list of the person's requests."""
    return await afar.browser(age=age).tab().open(PAGE)


async def sent(tab: Tab, ending: str = "", /, **fields: Any) -> Tab:
    """Sends the form of the page whose address ends so; without an ending, the one that allows."""
    for place, form in enumerate(tab.page.forms):
        if form.action.startswith(PAGE) and (form.action.endswith(ending) if ending else form.action.count("/") == 3):
            return await tab.send(place, **fields)
    raise AssertionError(f"no form ends in {ending}")


def look(tab: Tab) -> str:
    """The address of the first request of the list."""
    return next(link for link in tab.page.links if link.startswith(f"{PAGE}/"))


async def test_the_person_reads_takes_a_tick_away_and_allows(afar: Afar) -> None:
    request = await afar.requested()
    tab = await opened(afar)
    for words in ("Helper", "AI agent of Acme", "Orders", "See your orders", "Order in your name", "Invoice 4711", "was not verified"):
        assert words in tab.page.text, words
    tab = await tab.open(look(tab))
    for words in ("Allow Helper to act on your behalf?", "Approve only if", "Invoice 4711", "For how long?", afar.ada.email):
        assert words in tab.page.text, words
    tab = await sent(tab, scopes=[f"{afar.orders} {READ}"], days="1")
    assert (tab.place, "Request approved" in tab.page.text, "No pending requests" in tab.page.text) == (f"{PAGE}?done=allowed", True, True)
    tokens = afar.kept((await afar.poll(request)).ok())
    assert claims_of(tokens["access_token"])["scope"] == READ


async def test_an_application_that_is_no_agent_signs_the_person_in(afar: Afar) -> None:
    request = await afar.requested(afar.shop, scope="openid email", resource=None, binding_message=None)
    tab = await opened(afar)
    assert "sign you in to the application" in tab.page.text
    assert "was not verified" not in tab.page.text
    tab = await tab.open(look(tab))
    assert "View your email address" in tab.page.text
    assert "For how long?" not in tab.page.text
    await sent(tab)
    tokens = afar.kept((await afar.poll(request, afar.shop)).ok())
    assert claims_of(tokens["id_token"])["email"] == afar.ada.email


async def test_nothing_ticked_is_refused_in_words(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar)
    tab = await sent(await tab.open(look(tab)), scopes=[])
    assert (tab.status, "Select at least one permission" in tab.page.text) == (400, True)


async def test_an_end_that_the_page_does_not_offer(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar)
    tab = await sent(await tab.open(look(tab)), days="365")
    assert tab.status == 400


async def test_the_person_says_no(afar: Afar) -> None:
    request = await afar.requested()
    tab = await opened(afar)
    tab = await sent(tab, "/refuse")
    assert "Request denied" in tab.page.text
    assert oauth(await afar.poll(request)) == (400, "access_denied")


async def test_never_again_and_again(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar)
    tab = await sent(tab, "/block")
    for words in ("Its requests no longer reach you", "Blocked applications", "Helper", "Unblock application"):
        assert words in tab.page.text, words
    await afar.requested()
    assert "No pending requests" in (await opened(afar)).page.text
    tab = await sent(tab, "/end")
    assert "can send you requests again" in tab.page.text
    await afar.requested()
    assert "No pending requests" not in (await opened(afar)).page.text


async def test_a_yes_needs_a_fresh_proof_and_a_no_does_not(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar, age=86_400)
    there = look(tab)
    tab = await tab.open(there)
    assert tab.place != there


async def test_a_request_that_is_over(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar)
    shown = await tab.open(look(tab))
    afar.expire()
    shown = await sent(shown)
    assert (shown.status, "This request has expired" in shown.page.text) == (404, True)


async def test_what_the_organization_asks_is_said(afar: Afar) -> None:
    await afar.requested()
    tab = await opened(afar)
    shown = await tab.open(look(tab))
    afar.people.change("update all_organizations set mfa_required_since = now() - interval '1 year', mfa_grace_days = 0")
    assert (await sent(shown)).status == 403
    afar.people.change("update all_organizations set mfa_required_since = null")
    afar.people.change("update resource_servers set scopes = jsonb_set(scopes, '{0,max_age}', '0')")
    shown = await shown.open(look(await opened(afar, age=5)))
    again = await sent(shown)
    assert (again.status, "Sign in again" in again.page.text) == (401, True)


async def test_a_page_in_each_language(afar: Afar) -> None:
    await afar.requested()
    for language, words in (("de", "Genehmigungsanfragen"), ("fr", "Refuser"), ("es", "Solicitudes de aprobación")):
        tabs = afar.browser()
        tabs.language = language
        assert words in (await tabs.tab().open(PAGE)).page.text


async def test_the_page_says_that_the_access_outlives_the_sign_out(afar: Afar) -> None:
    """It does so without `offline_access`, too, so the person has to read it before the yes."""
    lasts = "Keep access after you sign out here"
    await afar.requested(afar.shop, scope="openid email", resource=None)
    tab = await opened(afar)
    assert lasts in (await tab.open(look(tab))).page.text
    await sent(tab, "/refuse")
    await afar.requested()
    tab = await opened(afar)
    assert lasts not in (await tab.open(look(tab))).page.text
