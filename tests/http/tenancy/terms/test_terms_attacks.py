"""SECURITY 6, 39, 48: nobody accepts terms for somebody else, or in the log of an organization that they have nothing to do with."""

import pytest

from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import refused
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox, link_in
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.terms.test_terms_pages import ACME, INSTALLATION, TermsPageScene

EVE, BOB = "eve@example.org", "bob@example.org"
AGAIN = "another fresh and lively one"
GLOBEX = "/api/organizations/globex/terms"


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> TermsPageScene:
    return TermsPageScene(postern, people, unlimited(postern), log)


async def test_an_address_in_capital_letters_is_refused_in_words(scene: TermsPageScene) -> None:
    body = {"version": "1", "address": "HTTPS://acme.example/terms", "due_at": "2099-01-01T00:00:00Z"}
    answer = await scene.request("PUT", ACME, body, by=scene.owner)
    assert refused(answer) == (400, "BAD_REQUEST")
    assert answer.json()["error"].startswith("address: ")


async def test_a_registration_accepts_nothing_of_other_organizations(scene: TermsPageScene) -> None:
    await scene.ask_for("1")
    await scene.ask_for("7", INSTALLATION)
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner")
    body = {"version": "9", "address": "https://globex.example/terms", "due_at": "2099-01-01T00:00:00Z"}
    assert (await scene.request("PUT", GLOBEX, body, by=boss)).status == 200
    (theirs,) = scene.people.rows("select id from terms where version = '9'")
    tab = await Tabs(scene.client).tab().open("/ui/register?org_slug=acme")
    (form,) = [one for one in tab.page.forms if "terms" in one.fields]
    await tab.send(email=BOB, password=PASSWORD, terms=f"{form.fields['terms']} {theirs['id']}")
    assert tab.place.startswith("/ui/check-mail")
    assert scene.accepted() == ["1", "7"]
    told = scene.people.rows("select from audit_log where action = 'terms.accepted' and organization_id = %s", globex.id)
    assert told == []


async def test_who_proves_an_address_has_accepted_nothing_that_a_stranger_has_for_it(scene: TermsPageScene) -> None:
    """Mallory registers Eve's address and accepts. Eve, who has never seen the text, comes by her mailbox."""
    await scene.ask_for("1")
    await scene.ask_for("7", INSTALLATION)
    seen = [{"version": "7"}, {"version": "1", "organization": "acme"}]
    body = {"email": EVE, "password": "a fresh and lively password", "org_slug": "acme", "accept_terms": seen}
    assert (await scene.client.post("/api/auth/register", body)).status == 200
    assert scene.accepted() == ["1", "7"]
    tab = await _comes_by_her_mailbox(scene)
    assert tab.status == 200, tab.page.text
    assert scene.people.rows("select email_verified_at is not null as yes from users where email = %s", EVE) == [{"yes": True}]
    assert scene.accepted() == []


async def _comes_by_her_mailbox(scene: TermsPageScene) -> Tab:
    box = Postbox(scene.postern)
    await box.empty()
    (await scene.client.post("/api/auth/forgot-password", {"email": EVE})).ok()
    (mail,) = [one for one in await box.empty() if Email(one.to).key == Email(EVE).key]
    tab = await Tabs(scene.client).tab().open(link_in(mail).removeprefix(BASE_URL))
    return await tab.send(new_password=AGAIN, repeated=AGAIN)
