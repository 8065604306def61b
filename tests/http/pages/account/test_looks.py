"""Light or dark pages, as somebody chooses in the menu of the person; and the frame's menu of organizations."""

import pytest

from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.account.conftest import AccountPagesScene

LOOK = "__Host-postern_look"


async def choose(home: AccountPagesScene, look: str, to: str = "/ui/devices") -> None:
    tab = await home.open("/ui/devices")
    await home.tab._go("POST", f"/ui/look?to={to}", {"form_token": tab.page.forms[0].fields["form_token"], "look": look})


@pytest.mark.parametrize("look", ["light", "dark"])
async def test_a_browser_keeps_its_look_until_the_system_decides_again(home: AccountPagesScene, look: str) -> None:
    await choose(home, look)
    assert home.tab.place == "/ui/devices"
    assert home.tabs.cookies[LOOK] == look
    assert f"/account-{look}.css" in home.tab.shown.body.decode()
    await choose(home, "system")
    assert LOOK not in home.tabs.cookies
    assert f"account-{look}.css" not in (await home.open("/ui/devices")).shown.body.decode()


async def test_another_look_is_none_and_no_other_site_is_gone_to(home: AccountPagesScene) -> None:
    await choose(home, "blinking")
    assert home.tab.status == 400
    assert LOOK not in home.tabs.cookies
    await choose(home, "dark", to="https://evil.example/")
    assert home.tab.place == "/ui"
    # A cookie that somebody planted is no look.
    home.tabs.cookies[LOOK] = "dark.css"
    assert "/account.css" in (await home.open("/ui/devices")).shown.body.decode()


def test_a_chosen_look_does_not_ask_the_system() -> None:
    for look in ("light", "dark"):
        _, _, digest, name = shipped_pages().asset_url(f"console-{look}.css").split("/")
        found = shipped_pages().asset(digest, name)
        assert found is not None
        assert b"prefers-color-scheme" not in found[0]
        assert f"color-scheme:{look}".encode() in found[0]


async def test_the_menu_of_the_organization_has_the_others_that_one_looks_after(home: AccountPagesScene) -> None:
    for slug, role in (("acme", "owner"), ("globex", "admin"), ("initech", "member")):
        home.tenants.join(home.ada, home.tenants.add(slug, name=slug.title()), role)
    tab = await home.open("/ui/o/acme")
    assert {"/ui/o/globex", "/ui/organizations", "/ui/organizations/~new"} <= set(tab.page.links)
    # A plain member has nothing to do in the console.
    assert "/ui/o/initech" not in tab.page.links
