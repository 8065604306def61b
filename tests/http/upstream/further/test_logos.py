"""The logo of a further provider: uploaded, shown on buttons and among connected accounts, and removed."""

from typing import Any, Final

import pytest

from tests.http.browsing import Tab
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.pictures import drawn_png

LOGO: Final = f"{PROVIDERS}/discord/logo"
PAGE: Final = "/ui/platform/providers/discord/logo"


async def upload(scene: FurtherScene, content: bytes, kind: str = "image/png", *, by: Person | None = None, at: str = LOGO) -> Received:
    token = await scene.people.token(by or scene.root)
    return await scene.client.request("PUT", at, body=content, token=token, headers=[("content-type", kind)])


def kept(scene: FurtherScene) -> dict[str, Any]:
    (row,) = scene.people.rows("select logo_digest, logo_media_type, logo from further_providers")
    return row


NOTHING: Final = {"logo_digest": None, "logo_media_type": None, "logo": None}


async def test_a_logo_stands_on_the_buttons_until_it_is_removed(scene: FurtherScene) -> None:
    await scene.has("discord")
    assert b"/logos/" not in (await scene.browser().request("GET", "/ui/sign-in")).body
    told = (await upload(scene, drawn_png())).ok()
    path = told["logo"].removeprefix(BASE_URL)
    assert path == f"/logos/{kept(scene)['logo_digest']}"
    shown = await scene.client.get(path)
    assert (shown.status, shown.header("content-type"), shown.header("x-content-type-options")) == (200, "image/png", "nosniff")
    assert "immutable" in (shown.header("cache-control") or "")
    picture = f'<img class="provider" src="{path}" alt="" width="20" height="20">'
    for page in ("/ui/sign-in", "/ui/register"):
        assert picture in (await scene.browser().request("GET", page)).body.decode(), page
    # Everything else stays, and a change keeps the logo.
    changed = await scene.request("PATCH", f"{PROVIDERS}/discord", {"name": "Chat"}, by=scene.root)
    assert changed.json()["logo"] == told["logo"]
    # The same again changes nothing, and is not on record.
    assert (await upload(scene, drawn_png())).ok()["logo"] == told["logo"]
    assert scene.audited("platform.provider.updated")[0]["details"] == {"name": "Discord", "logo_changed": True}
    for _ in range(2):
        assert (await scene.request("DELETE", LOGO, by=scene.root)).status == 204
    assert kept(scene) == NOTHING
    assert (await scene.client.get(path)).status == 404
    assert b"/logos/" not in (await scene.browser().request("GET", "/ui/sign-in")).body
    assert len(scene.audited("platform.provider.updated")) == 3


async def test_it_stands_beside_a_connected_account(scene: FurtherScene) -> None:
    await scene.has("discord")
    told = (await upload(scene, drawn_png())).ok()
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "discord")))
    page = (await tabs.request("GET", "/ui/settings/connections")).body.decode()
    assert f'src="{told["logo"].removeprefix(BASE_URL)}"' in page


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "image/png", 400),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", 415),
        (drawn_png(), "image/jpeg", 400),
        (drawn_png()[:40], "image/png", 400),
        (drawn_png(2049, 1), "image/png", 400),
        (drawn_png() + bytes(256 << 10), "image/png", 413),
    ],
)
async def test_what_is_no_picture_is_no_logo(content: bytes, kind: str, status: int, scene: FurtherScene) -> None:
    await scene.has("discord")
    assert (await upload(scene, content, kind)).status == status
    assert kept(scene) == NOTHING


async def test_only_a_platform_owner_with_a_fresh_proof_sets_it(scene: FurtherScene) -> None:
    await scene.has("discord")
    boss = scene.resident(scene.acme, "owner")
    assert (await upload(scene, drawn_png(), by=boss)).status == 403
    assert (await scene.request("DELETE", LOGO, by=boss)).status == 403
    assert (await upload(scene, drawn_png(), at=f"{PROVIDERS}/nobody/logo")).status == 404
    assert (await scene.request("DELETE", f"{PROVIDERS}/nobody/logo", by=scene.root)).status == 404
    scene.people.change("update sessions set proved_at = now() - interval '1 day' where id = %s", scene.root.session)
    assert (await upload(scene, drawn_png())).error_code == "REAUTHENTICATION_REQUIRED"
    assert (await scene.request("DELETE", LOGO, by=scene.root)).error_code == "REAUTHENTICATION_REQUIRED"
    assert kept(scene) == NOTHING


async def test_a_logo_comes_from_a_file_on_the_page_and_goes(scene: FurtherScene) -> None:
    await scene.has("discord")
    tab = await scene.signed_in(scene.root).tab().open("/ui/platform/providers/discord")
    assert PAGE in tab.page.links
    await tab.open(PAGE)
    assert [one.action for one in tab.page.forms if one.action.startswith(PAGE)] == [PAGE]
    await _send(tab, PAGE, logo=b"<svg/>")
    assert tab.status == 400
    assert tab.page.inputs["logo"]["aria-invalid"] == "true"
    assert "PNG, JPEG or WebP" in tab.page.text
    assert kept(scene) == NOTHING
    await _send(tab, PAGE, logo=drawn_png())
    assert tab.place == f"{PAGE}?done=console.provider_logo.upload"
    assert f'src="{BASE_URL}/logos/{kept(scene)["logo_digest"]}"' in tab.shown.body.decode()
    await _send(tab, f"{PAGE}/remove")
    assert tab.place == f"{PAGE}?done=console.provider_logo.remove"
    assert kept(scene) == NOTHING
    assert "/logos/" not in tab.shown.body.decode()


async def _send(tab: Tab, action: str, **fields: bytes) -> None:
    (number,) = [number for number, one in enumerate(tab.page.forms) if one.action == action]
    await tab.send(number, **fields)
