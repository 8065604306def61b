"""`/ui/organizations`, and the invitations that a person can answer."""

from typing import Any
from urllib.parse import quote

import pytest
from markupsafe import escape

from core.domain.tenancy.roles import Capability
from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.people import BASE_URL
from tests.http.tenants import Tenant

PAGE = "/ui/organizations"
INVITATIONS = f"{PAGE}/invitations"
HOSTILE = "<b onload='x'>\u202eadmin\u2066</b> {{ 77 * 77 }} & co."


async def invited(home: AccountPagesScene, tenant: Tenant, email: str = "ada@example.org", role: str = "admin") -> str:
    owner = home.resident(tenant, "owner")
    issued = (await home.request("POST", f"/api/organizations/{tenant.slug}/invitations", {"email": email, "role": role}, by=owner)).ok()
    home.log.remember(issued["token"])
    return str(issued["invitation"]["id"])


def members(home: AccountPagesScene) -> list[Any]:
    return home.people.rows("select role from memberships where user_id = %s", home.ada.user)


async def test_ones_organizations_in_each_state(home: AccountPagesScene) -> None:
    for slug, status in (("acme", "active"), ("globex", "suspended"), ("initech", "pending")):
        home.tenants.join(home.ada, home.tenants.add(slug, status=status), "admin")
    home.tenants.add("umbrella")
    text = (await home.open(PAGE)).page.text
    role = "Role: Administrator · 1 member"
    assert f"Acme {role} · Open console Globex {role} Suspended Initech {role} Pending approval" in text
    assert "Umbrella" not in text
    one = (await home.open(f"{PAGE}/globex")).page.text
    assert "This organization is suspended" in one
    assert "Your role Administrator" in one
    assert "suspended" not in (await home.open(f"{PAGE}/acme")).page.text


async def test_a_role_of_the_organizations_own_is_told_by_its_name(home: AccountPagesScene) -> None:
    acme, globex = home.tenants.add("acme"), home.tenants.add("globex")
    role = home.tenants.role(acme, "rev-1", [Capability.MEMBERS_VIEW])
    home.tenants.join(home.ada, acme, role)
    offered = home.tenants.role(globex, "rev-2", [Capability.MEMBERS_VIEW])
    invitation = await invited(home, globex, role=offered.slug)
    # Once as typed_line returns it, and once as only direct access to the database can write it.
    for name in ("Revisionsabteilung Nord", HOSTILE):
        home.people.change("update roles set name = %s", name)
        for place in (PAGE, f"{PAGE}/acme", INVITATIONS, f"{INVITATIONS}/{invitation}"):
            shown = await home.open(place)
            assert f"<bdi>{escape(name)}</bdi>".encode() in shown.shown.body, place
            assert "rev-" not in shown.page.text, place
            assert "5929" not in shown.page.text


async def test_a_built_in_role_is_told_in_the_language_of_the_page(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    home.tenants.join(home.ada, acme, "owner")
    invitation = await invited(home, home.tenants.add("globex"))
    home.tabs.language = "de"
    assert "Rolle: Inhaber" in (await home.open(PAGE)).page.text
    assert "Ihre Rolle Inhaber" in (await home.open(f"{PAGE}/acme")).page.text
    assert "Rolle: Administrator" in (await home.open(INVITATIONS)).page.text
    assert "Rolle Administrator" in (await home.open(f"{INVITATIONS}/{invitation}")).page.text


async def test_many_organizations_stand_on_several_pages(home: AccountPagesScene) -> None:
    for number in range(21):
        home.tenants.join(home.ada, home.tenants.add(f"org-{number:02}"))
    assert "Page 1 of 2" in (await home.open(PAGE)).page.text
    assert f"{PAGE}/org-20" in (await home.open(f"{PAGE}?page=2")).page.links


async def test_an_organization_of_others_does_not_exist(home: AccountPagesScene) -> None:
    home.tenants.add("acme")
    for slug in ("acme", "nothing", "%00", "x" * 300):
        assert (await home.open(f"{PAGE}/{slug}")).status == 404


async def test_the_page_lists_what_one_may_use_there(home: AccountPagesScene) -> None:
    acme, globex = home.tenants.add("acme"), home.tenants.add("globex")
    for tenant in (acme, globex):
        home.tenants.join(home.ada, tenant)
    sites = {"board": acme, "closed": acme, "agent": acme, "api": acme, "elsewhere": globex}
    services = {slug: home.tenants.service(tenant, slug) for slug, tenant in sites.items()}
    home.people.change("update all_services set redirect_uris = array['https://' || slug || '.example.com/callback'] where slug <> 'api'")
    home.people.change("update all_services set sign_in_policy = 'assigned' where slug = 'closed'")
    home.people.change("update all_services set is_agent = true where slug = 'agent'")
    tab = await home.open(f"{PAGE}/acme?done=joined")
    assert "You joined the organization." in tab.page.text
    assert "Your applications Open Board Your role" in tab.page.text
    assert "Open this organization" not in tab.page.text
    assert {link for link in tab.page.links if link.startswith("https:")} == {"https://board.example.com/"}
    assert (await home.tabs.request("POST", f"{PAGE}/acme", {"form_token": ""})).status == 405
    home.tenants.assign(services["closed"], user_id=home.ada.user)
    assert "https://closed.example.com/" in (await home.open(f"{PAGE}/acme")).page.links
    # The start page has those of all organizations, used or not.
    start = await home.open("/ui")
    sites_there = {link for link in start.page.links if link.startswith("https:")}
    assert sites_there == {f"https://{slug}.example.com/" for slug in ("board", "closed", "elsewhere")}
    home.people.change("update all_services set sign_in_policy = 'assigned' where slug = 'board'")
    assert "https://board.example.com/" not in (await home.open("/ui")).page.links


async def test_open_begins_the_sign_in_where_the_application_says(home: AccountPagesScene) -> None:
    """It learns who asks, and nothing about the person."""
    acme, globex = home.tenants.add("acme"), home.tenants.add("globex")
    home.tenants.join(home.ada, acme)
    owner = home.resident(acme, "owner")
    for tenant, slug in ((acme, "board"), (acme, "desk"), (globex, "theirs")):
        home.tenants.service(tenant, slug)
    home.people.change("update all_services set redirect_uris = array['https://' || slug || '.example.com/callback']")
    at = "/api/organizations/acme/services/board"
    (await home.request("PATCH", at, {"initiate_login_uri": "https://board.example.com/sign-in?from=us"}, by=owner)).ok()
    begins = f"https://board.example.com/sign-in?from=us&iss={quote(BASE_URL, safe='')}"
    for place in (f"{PAGE}/acme", "/ui"):
        tab = await home.open(place)
        assert {link for link in tab.page.links if "example.com" in link} == {begins, "https://desk.example.com/"}, place
        assert f'href="{escape(begins)}" rel="noreferrer"'.encode() in tab.shown.body, place
    # Nobody of another organization sets it, and null leads back to the start page.
    elsewhere = {"initiate_login_uri": "https://evil.example.com/"}
    assert (await home.request("PATCH", at, elsewhere, by=home.resident(globex, "owner"))).status == 403
    (await home.request("PATCH", at, {"initiate_login_uri": None}, by=owner)).ok()
    assert "https://board.example.com/" in (await home.open("/ui")).page.links


async def test_a_saml_application_that_begins_the_sign_in_itself_does_so(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    home.tenants.join(home.ada, acme)
    owner, at = home.resident(acme, "owner"), "/api/organizations/acme/services/board"
    home.tenants.service(acme, "board")
    provider = {"enabled": True, "entity_id": "https://board.example.com/", "acs_url": "https://board.example.com/acs"}
    (await home.request("POST", f"{at}/saml", provider, by=owner)).ok()
    assert "/ui/open/acme/board" in (await home.open("/ui")).page.links
    said = {"initiate_login_uri": "https://board.example.com/sign-in"}
    (await home.request("PATCH", at, said, by=owner)).ok()
    links = (await home.open("/ui")).page.links
    assert f"https://board.example.com/sign-in?iss={quote(BASE_URL, safe='')}" in links
    assert "/ui/open/acme/board" not in links


async def test_an_organization_that_lists_somebody_puts_nothing_on_their_start_page(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    home.tenants.join(home.ada, acme, listed=True)
    home.tenants.service(acme, "board")
    home.people.change("update all_services set redirect_uris = array['https://board.example.com/callback']")
    assert "https://board.example.com/" not in (await home.open("/ui")).page.links
    assert "You do not have access to any applications here yet" in (await home.open(f"{PAGE}/acme")).page.text


async def test_a_role_that_others_gave_puts_no_organization_into_the_menu_before_the_person_says_yes(home: AccountPagesScene) -> None:
    """Its name could say anything. The person reads it where they answer."""
    home.tenants.join(home.ada, home.tenants.add("own"), "owner")
    home.tenants.join(home.ada, home.tenants.add("listing"), "admin", listed=True)
    for place in ("/ui", "/ui/o/own"):
        page = (await home.open(place)).page
        assert "/ui/o/own" in page.links, place
        assert ("/ui/o/listing" in page.links, "Listing" in page.text) == (False, False), place
    home.people.change("update memberships set own_since = now()")
    for place in ("/ui", "/ui/o/own"):
        assert "/ui/o/listing" in (await home.open(place)).page.links, place


async def test_an_invitation_is_accepted(home: AccountPagesScene) -> None:
    invitation = await invited(home, home.tenants.add("acme"))
    assert "Acme Role: Administrator" in (await home.open(INVITATIONS)).page.text
    await home.open(f"{INVITATIONS}/{invitation}")
    assert "You are invited to Acme" in home.tab.page.text
    assert members(home) == []
    form = home.form
    await home.send(answer="accept")
    assert home.tab.place == f"{INVITATIONS}?done=joined"
    assert "No invitations" in home.tab.page.text
    assert members(home) == [{"role": "admin"}]
    (entry,) = home.audited("invitation.accepted")
    assert entry["actor_id"] == home.ada.user
    # Sent again, the form changes nothing. A moment later it no longer counts as a second click.
    for answer, done in (("accept", "joined"), ("decline", "answered")):
        again = await home.tabs.request("POST", form.action, {**form.fields, "answer": answer})
        assert again.header("location") == f"{INVITATIONS}?done={done}"
    home.people.change("update invitations set closed_at = closed_at - interval '11 seconds'")
    again = await home.tabs.request("POST", form.action, {**form.fields, "answer": "accept"})
    assert again.header("location") == f"{INVITATIONS}?done=answered"
    assert members(home) == [{"role": "admin"}]


async def test_two_clicks_accept_once(home: AccountPagesScene) -> None:
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('acme'))}")
    form = home.form

    async def accept() -> str | None:
        return (await home.tabs.request("POST", form.action, {**form.fields, "answer": "accept"})).header("location")

    assert {*await all_at_once(accept, accept)} == {f"{INVITATIONS}?done=joined"}
    assert members(home) == [{"role": "admin"}]


async def test_an_invitation_is_declined(home: AccountPagesScene) -> None:
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('acme'))}")
    form = home.form
    await home.send(answer="decline")
    assert home.tab.place == f"{INVITATIONS}?done=declined"
    again = await home.tabs.request("POST", form.action, {**form.fields, "answer": "decline"})
    assert again.header("location") == f"{INVITATIONS}?done=declined"
    assert "Invitation declined." in home.tab.page.text
    assert members(home) == []
    assert (await home.open(PAGE)).status == 200


async def test_a_form_without_an_answer_is_not_complete(home: AccountPagesScene) -> None:
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('acme'))}")
    await home.send()
    assert home.tab.status == 400
    assert home.people.rows("select status from invitations") == [{"status": "pending"}]


@pytest.mark.parametrize(
    ("change", "says", "status"),
    [
        ("update all_organizations set max_users = 1", "reached its member limit", 400),
        ("update invitations set expires_at = now() - interval '1 second'", "invitation is not valid", 404),
        ("update all_organizations set status = 'suspended'", "invitation is not valid", 404),
    ],
)
async def test_what_came_in_between_is_told(change: str, says: str, status: int, home: AccountPagesScene) -> None:
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('acme'))}")
    home.people.change(change)
    await home.send(answer="accept")
    assert home.tab.status == status
    assert says in home.tab.page.text
    assert members(home) == []


async def test_an_invitation_that_was_withdrawn_meanwhile(home: AccountPagesScene) -> None:
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('acme'))}")
    home.people.change("update invitations set status = 'cancelled', closed_at = now()")
    await home.send(answer="accept")
    assert home.tab.place == f"{INVITATIONS}?done=answered"


async def test_an_invitation_of_another_person_does_not_exist(home: AccountPagesScene) -> None:
    theirs = await invited(home, home.tenants.add("acme"), "eve@example.org")
    for invitation in (theirs, home.postern.foundation.ids.new(), "x"):
        assert (await home.open(f"{INVITATIONS}/{invitation}")).status == 404


async def test_a_token_that_another_person_was_given_opens_nothing(home: AccountPagesScene) -> None:
    """The token was listed for Eve's session. In Ada's form it would make Eve a member."""
    eve = home.people.add("eve@example.org")
    home.people.change("update users set email_verified_at = now() where id = %s", eve.user)
    theirs = await invited(home, home.tenants.add("acme"), eve.email)
    shown = await home.browser(eve).tab().open(f"{INVITATIONS}/{theirs}")
    stolen = shown.page.forms[-1].fields["invitation"]
    await home.open(f"{INVITATIONS}/{await invited(home, home.tenants.add('globex'))}")
    await home.send(answer="accept", invitation=stolen)
    assert home.tab.status == 404
    assert home.people.rows("select status from invitations order by id")[0]["status"] == "pending"
