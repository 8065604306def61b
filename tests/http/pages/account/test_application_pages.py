"""`/ui/applications`: the applications that can act for a person, and how the person ends that."""

from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.people import Person
from tests.http.tenants import UsedService

PAGE = "/ui/applications"


def allowed(home: AccountPagesScene, service: UsedService, *scopes: str, person: Person | None = None) -> None:
    home.people.change(
        "insert into consents (id, user_id, service_id, scopes, granted_at) values (%s, %s, %s, %s, now())",
        home.postern.foundation.ids.new(),
        (person or home.ada).user,
        service.id,
        [*scopes],
    )


async def test_what_was_allowed_and_where_one_is_signed_in(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme", name="Acme Trading")
    shop, app = home.tenants.service(acme, "shop"), home.tenants.service(acme, "app")
    allowed(home, shop, "openid", "email")
    home.elsewhere(app)
    theirs = home.tenants.service(acme, "theirs")
    allowed(home, theirs, "openid", person=home.people.add("eve@example.org"))
    text = (await home.open(PAGE)).page.text
    assert "Shop Application of Acme Trading" in text
    assert "ada@example.org" in text
    assert "Allowed just now · 0 sessions" in text
    assert "App Application of Acme Trading 1 session · last used just now" in text
    assert "Theirs" not in text


async def test_access_is_taken_away_after_being_asked(home: AccountPagesScene) -> None:
    shop = home.tenants.service(home.tenants.add("acme"), "shop")
    allowed(home, shop, "openid")
    there = home.elsewhere(shop)
    await home.open(f"{PAGE}/{shop.id}/revoke")
    assert "Revoke access for Shop?" in home.tab.page.text
    assert home.lives(there)
    form = home.form
    await home.send()
    assert home.tab.place == f"{PAGE}?done=revoked"
    assert "No applications" in home.tab.page.text
    assert not home.lives(there)
    assert home.people.rows("select from consents") == []
    assert (await home.tabs.request("POST", form.action, form.fields)).header("location") == PAGE
    assert len(home.audited("user.consent.revoked")) == 1


async def test_an_application_without_access_is_not_asked_about(home: AccountPagesScene) -> None:
    shop = home.tenants.service(home.tenants.add("acme"), "shop")
    eve = home.people.add("eve@example.org")
    allowed(home, shop, "openid", person=eve)
    token = (await home.open(PAGE)).page.forms[0].fields["form_token"]
    for service in (shop.id, home.postern.foundation.ids.new(), "x"):
        assert (await home.open(f"{PAGE}/{service}/revoke")).status == 404
    await home.tabs.request("POST", f"{PAGE}/{shop.id}/revoke", {"form_token": token})
    assert len(home.people.rows("select from consents")) == 1


async def test_many_applications_stand_on_several_pages(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    for number in range(21):
        allowed(home, home.tenants.service(acme, f"app-{number:02}"), "openid")
    assert "Page 1 of 2" in (await home.open(PAGE)).page.text
    assert "App-20" in (await home.open(f"{PAGE}?page=2")).page.text
