"""The choice, in a browser, between several organizations that a person manages."""

import pytest

from core.domain.identity.callers import Caller
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.http.browsing import Tabs
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenants

PAGE = "/ui/choose-organization"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def whoever(tabs: Tabs, postern: Postern) -> Caller:
    caller = await postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    assert caller is not None
    return caller


@pytest.mark.parametrize(("number", "asked"), [(0, False), (1, False), (2, True)])
async def test_who_belongs_to_several_is_asked_after_signing_in(
    number: int, asked: bool, tabs: Tabs, postern: Postern, people: People, ada: Person
) -> None:
    tenants = Tenants(postern, people)
    for slug in ("acme", "globex")[:number]:
        tenants.join(ada, tenants.add(slug))
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place == (PAGE if asked else "/ui")
    if not asked:
        return
    assert (await whoever(tabs, postern)).chosen_organization == ""
    await tab.send(organization="globex")
    assert tab.place == "/ui"
    caller = await whoever(tabs, postern)
    # The choice alone gives no access.
    assert (caller.chosen_organization, caller.organization, caller.role) == ("globex", "", "")
    people.change("delete from memberships where user_id = %s", ada.user)
    assert (await whoever(tabs, postern)).chosen_organization == ""


async def test_a_choice_is_changed_and_taken_back_and_only_among_ones_own(
    tabs: Tabs, postern: Postern, people: People, ada: Person
) -> None:
    tenants = Tenants(postern, people)
    tenants.add("globex")
    tenants.join(ada, tenants.add("acme"))
    tab = await tabs.tab().open(f"/ui/sign-in?to={PAGE}?to=/ui/x")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place == f"{PAGE}?to=/ui/x"
    form = tab.page.forms[0]
    for slug, status, chosen in (("acme", 303, "acme"), ("globex", 403, "acme"), ("nothing\x7f", 403, "acme"), ("", 303, "")):
        answer = await tabs.request("POST", PAGE, {**form.fields, "organization": slug})
        assert answer.status == status
        assert answer.header("location") == ("/ui/x" if status == 303 else None)
        assert (await whoever(tabs, postern)).chosen_organization == chosen


async def test_who_belongs_to_none_reads_how_that_comes(tabs: Tabs, ada: Person) -> None:
    tab = await tabs.tab().open(f"/ui/sign-in?to={PAGE}")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert "You are not a member of an organization" in tab.page.text


async def test_one_that_is_closed_until_a_second_factor_is_set_up_leads_there(
    tabs: Tabs, postern: Postern, people: People, ada: Person
) -> None:
    tenants = Tenants(postern, people)
    for slug in ("acme", "globex"):
        tenants.join(ada, tenants.add(slug))
    people.change("update all_organizations set mfa_required_since = now(), mfa_grace_days = 0 where slug = 'globex'")
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place == PAGE
    await tab.send(organization="globex")
    assert tab.place == f"/ui/second-factor?to={PAGE}%3Fto%3D/ui"
    assert "Globex requires two-step sign-in" in tab.page.text
    assert (await whoever(tabs, postern)).chosen_organization == ""
    await tab.open(PAGE)
    await tab.send(organization="acme")
    assert (await whoever(tabs, postern)).chosen_organization == "acme"
