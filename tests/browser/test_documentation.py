"""The documentation in a browser: for every reader, with a keyboard, and with its search."""

from collections import Counter

import pytest

from entrypoints.http.routes import ROUTES
from ops.browser.page import WIDE, Page
from tests.browser.checks import contrast_findings, require_keyboard, require_sound, tab_to

TAGS = sorted({one.tags[0] for one in ROUTES})
NARROWEST = 320
MOST_PIXELS = 8000
"""Of the contents in a wide window, before anything is unfolded."""
SHOWN = "[...document.querySelectorAll('.operations li')].filter((one) => !one.hidden).length"


async def unfold(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")


async def require_sound_in_any_window(page: Page) -> None:
    """Checks the page in a wide window and light colours, then contrast and overflow in a narrow window and dark colours."""
    await page.show(width=WIDE, scheme="light")
    await require_sound(page)
    await page.show(width=NARROWEST, scheme="dark")
    assert list(await contrast_findings(page)) == []
    assert await page.overflow() == 0


async def test_the_contents_are_sound(scripted_page: Page) -> None:
    page = scripted_page
    await page.open("/docs")
    await require_sound_in_any_window(page)


@pytest.mark.parametrize("tag", ["services", "service-interface", "oauth"])
async def test_a_topic_is_sound_with_everything_unfolded(scripted_page: Page, tag: str) -> None:
    page = scripted_page
    await page.open(f"/docs/{tag}")
    await unfold(page)
    await require_sound_in_any_window(page)


async def test_no_topic_is_wider_than_its_window(plain_page: Page) -> None:
    await plain_page.show(width=NARROWEST)
    for tag in TAGS:
        await plain_page.open(f"/docs/{tag}")
        await unfold(plain_page)
        assert await plain_page.overflow() == 0, tag


async def test_an_error_is_explained_to_every_reader(plain_page: Page) -> None:
    page = plain_page
    await page.open("/docs/errors")
    await require_keyboard(page)
    await tab_to(page, "Error (up to 16 KiB). The text is not stored.")
    await page.type("error=invalid_client&error_description=nothing")
    async with page.loading():
        await tab_to(page, "Explain")
        await page.press("Enter")
    assert "What it means" in await page.text()
    await require_sound_in_any_window(page)


async def test_a_keyboard_reaches_everything(plain_page: Page) -> None:
    await plain_page.open("/docs/keys")
    await require_keyboard(plain_page)


async def test_a_search_leads_to_an_endpoint(scripted_page: Page) -> None:
    page = scripted_page
    await page.open("/docs")
    everything = await page.evaluate(SHOWN)
    await page.press("/")
    assert await page.focused() == "Search guides and endpoints"
    await page.type("client secret post")
    assert 0 < await page.evaluate(SHOWN) < everything
    assert f"of {everything} endpoints" in await page.text()
    async with page.loading():
        await tab_to(page, "Create a client secret")
        await page.press("Enter")
    assert (await page.place()).endswith("/docs/services#create_client_secret")
    assert await page.evaluate("document.getElementById('create_client_secret').open")
    await page.back()
    await page.press("/")
    await page.press("Escape")
    assert await page.evaluate(SHOWN) == everything


async def test_without_scripts_an_endpoint_unfolds_by_its_summary(plain_page: Page) -> None:
    page = plain_page
    await page.open("/docs/keys")
    assert "curl" not in await page.text()
    await page.evaluate("document.querySelector('details > summary').click()")
    assert "curl" in await page.text()


FOUND = """[...document.querySelectorAll('[data-topic]:not([hidden])')].map((topic) => [
    topic.id.replace('tag-', ''), topic.querySelectorAll('.operations li:not([hidden])').length])"""


async def test_a_search_finds_what_one_wants_by_ones_own_words(scripted_page: Page) -> None:
    page = scripted_page
    await page.open("/docs")
    await page.press("/")
    everything = await page.evaluate(SHOWN)
    sizes = Counter(one.tags[0] for one in ROUTES)
    wanted = {
        "invite": "invitations",
        "invited people": "invitations",
        "two factor": "mfa",
        "gdpr": "privacy",
        "login": "sign-in",
        "tenants": "organizations",
        "rotate client secret": "services",
        "logo": "settings",
        "impersonate": "platform",
        "github actions": "trusted-issuers",
    }
    for asked, topic in wanted.items():
        await page.press("Escape")
        await page.type(asked)
        found = dict(await page.evaluate(FOUND))
        assert topic in list(found)[:3], f"{asked}: {found}"
        assert f", {sum(found.values())} of {everything} endpoints" in await page.text()
    await page.press("Escape")
    await page.type("invite")
    found = dict(await page.evaluate(FOUND))
    assert next(iter(found)) == "invitations"
    assert found["invitations"] == sizes["invitations"]
    await page.press("Escape")
    await page.type("nothing has such a word")
    assert await page.evaluate(FOUND) == []
    await page.press("Escape")
    assert len(await page.evaluate(FOUND)) == len(TAGS)


async def test_an_example_is_copied(scripted_page: Page) -> None:
    page = scripted_page
    await page.open("/docs/teams#create_team")
    await page.evaluate("navigator.clipboard.writeText = async (text) => { globalThis.copied = text }")
    for opened, begins in (
        ("create_team", "curl "),
        ("create_team-python", "postern.create_team("),
        ("create_team-typescript", "await postern."),
    ):
        await page.evaluate(
            f"(document.getElementById('{opened}').open = true, document.querySelector('#{opened} > .copy, #{opened} .copy').click())"
        )
        assert str(await page.evaluate("globalThis.copied")).startswith(begins)
    await require_sound(page)


# A line that goes beyond its block, and a button that is not within one.
CUT_OFF = """[...document.querySelectorAll('pre.example')].filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"""
OUTSIDE = """[...document.querySelectorAll('.copy')].filter(one => {
  const [button, block] = [one, one.closest('pre') || document.body].map(each => each.getBoundingClientRect());
  const beside = button.left < block.left || button.right > block.right;
  return block === document.body || beside || button.top < block.top || button.bottom > block.bottom;
}).length"""


@pytest.mark.parametrize("width", [1280, 390])
async def test_no_line_is_cut_off_and_each_button_is_within_its_block(scripted_page: Page, width: int) -> None:
    page = scripted_page
    await page.show(width=width)
    for place in ("/docs", "/docs/services", "/docs/guides/start-nextjs", "/docs/guides/workloads-github-actions"):
        await page.open(place)
        await unfold(page)
        assert await page.evaluate("document.querySelectorAll('pre.example > .copy').length > 0"), place
        assert await page.evaluate(CUT_OFF) == [], place
        assert await page.evaluate(OUTSIDE) == 0, place
        assert await page.overflow() == 0, place


async def test_the_contents_are_chapters(plain_page: Page) -> None:
    """Without scripts, too, a topic and a folder of guides unfold by a press."""
    page = plain_page
    await page.show(width=WIDE)
    await page.open("/docs")
    assert int(await page.evaluate("document.documentElement.scrollHeight")) < MOST_PIXELS
    assert "Create a team" not in await page.text()
    await page.evaluate("document.querySelector('#tag-teams > summary').click()")
    assert "Create a team" in await page.text()
    await page.evaluate("document.querySelector('#guides-proxies > summary, #guides > details > summary').click()")
    # The list of topics has a link of the same name.
    async with page.loading():
        await page.evaluate("document.querySelector('#guides h2 a').click()")
    assert (await page.place()).endswith("/docs/guides")
    await require_sound_in_any_window(page)


async def test_an_address_of_before_still_opens_what_it_names(scripted_page: Page) -> None:
    await scripted_page.open("/docs#create_team")
    assert await scripted_page.evaluate("document.getElementById('tag-teams').open")


GUIDES = (
    "[...document.querySelectorAll('#guides:not([hidden]) .guides:not([hidden]) [data-guide]:not([hidden]) a')].map((one) => one.pathname)"
)


async def test_a_search_finds_guides_and_a_guide_is_read_and_copied(scripted_page: Page) -> None:
    page = scripted_page
    await page.open("/docs")
    everything = len(await page.evaluate(GUIDES))
    for asked, guide in (
        ("nginx", "proxies-nginx"),
        ("next.js", "start-nextjs"),
        ("users okta", "scim-okta"),
        ("github", "workloads-github-actions"),
    ):
        await page.press("/")
        await page.press("Escape")
        await page.type(asked)
        found = await page.evaluate(GUIDES)
        assert f"/docs/guides/{guide}" in found[:5], f"{asked}: {found}"
        assert f"{len(found)} of {everything} guides, " in await page.text()
    await page.press("Escape")
    await page.type("nothing has such a word")
    assert await page.evaluate(GUIDES) == []
    await page.open("/docs/guides/start-nextjs")
    await page.evaluate("navigator.clipboard.writeText = async (text) => { globalThis.copied = text }")
    await page.evaluate("document.querySelector('.guide .copy').click()")
    assert str(await page.evaluate("globalThis.copied")).startswith("export OIDC_ISSUER=")


@pytest.mark.parametrize("name", ["start-nextjs", "claims-and-scopes", "saml-grafana", "apis-mcp-servers"])
async def test_a_guide_with_tables_and_lists_is_sound(scripted_page: Page, name: str) -> None:
    page = scripted_page
    await page.open(f"/docs/guides/{name}")
    # axe-core does not decide about the end of a list that scrolls.
    await page.evaluate("document.querySelector('nav').style.maxHeight = 'none'")
    await require_sound_in_any_window(page)
