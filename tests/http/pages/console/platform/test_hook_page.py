"""The installation's hook, on the last tab of "Operation"."""

from tests.http.browsing import Tab
from tests.http.pages.console.platform.conftest import PlatformScene
from tests.http.tenancy.hooks.scene import GO_ON, saying
from tests.receiver import receiving

PAGE = "/ui/platform/hooks"


async def send(platform: PlatformScene, to: str, **fields: str) -> Tab:
    number = next(number for number, one in enumerate(platform.tab.page.forms) if one.action == to)
    return await platform.tab.send(number, **fields)


async def test_a_platform_owner_adds_the_hook_and_lets_it_count(platform: PlatformScene) -> None:
    assert PAGE in (await platform.at("/risk")).page.links
    assert "No sign-in hook" in (await platform.at("/hooks")).page.text
    assert "confirmed their membership" not in platform.tab.page.text
    async with receiving(saying(GO_ON)) as receiver:
        page = (await send(platform, f"{PAGE}/change", address=f"http://127.0.0.1:{receiver.port}/", silence="refuse", seconds="1")).page
        platform.log.remember(*[word for word in page.text.split() if word.startswith("whsec_")])
        await platform.at("/hooks")
        await send(platform, f"{PAGE}/try")
        assert len(receiver.calls) == 1
    platform.people.change("update hooks set since = since - interval '1 hour'")
    await platform.at("/hooks/count")
    page = (await send(platform, f"{PAGE}/count")).page
    assert "Enforced" in page.text
    assert "confirmed their membership" not in page.text
