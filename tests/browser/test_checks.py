"""The checks find faults: each of these pages has one."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from entrypoints.http.machinery.answers import PagePolicy, answer_headers
from entrypoints.http.server.heads import Scope
from entrypoints.http.server.limits import ServerSettings
from ops.browser.chromium import Chromium
from ops.browser.page import NARROW, Page, new_page
from tests.browser.checks import findings, require_keyboard, require_sound
from tests.browser.conftest import ADDRESS
from tests.http.people import BASE_URL
from tests.http.running_server import Certificate, Receive, Send, application, running

POLICY: Final = PagePolicy(form_action=("'self'",))
GOOD: Final = (
    '<!doctype html><html lang="en"><head><title>Here · Postern</title><meta name="viewport" content="width=device-width"></head>'
    "<body><main><h1>Here</h1>{}</main></body></html>"
)


@pytest.fixture
async def shown(chromium: Chromium, certificate: Certificate) -> AsyncIterator[tuple[Page, list[str]]]:
    """A page, and the list that its content is put into."""
    content = [""]

    async def handle(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = answer_headers([], b"text/html; charset=utf-8", policy=POLICY)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": GOOD.format(content[0]).encode()})

    settings = ServerSettings(certificate=certificate.certificate, certificate_key=certificate.key)
    async with running(application(handle), settings, address=ADDRESS), new_page(chromium, BASE_URL, scripts=True) as page:
        yield page, content


async def test_a_good_page_passes(shown: tuple[Page, list[str]]) -> None:
    page, content = shown
    content[0] = '<p><a href="/one">One</a> <button type="button">Two</button></p>'
    await page.open("/")
    await require_sound(page)
    assert await require_keyboard(page) == ["One", "Two"]


async def test_the_walk_by_keyboard_leaves_no_focus_behind(shown: tuple[Page, list[str]]) -> None:
    """A Chromium with windows goes from the last to the first again, and what shows with the focus alone would stand there in the next
    check: a link that skips to the content covers what is below it.
    """
    page, content = shown
    content[0] = '<p><a href="/one">One</a> <button type="button">Two</button></p>'
    await page.open("/")
    around = "addEventListener('keydown', e => { if (document.activeElement.localName === 'button') { e.preventDefault();"
    await page.evaluate(around + " document.querySelector('a').focus(); } }); true")
    assert await require_keyboard(page) == ["One", "Two"]
    assert await page.focused() == ""


async def test_bad_contrast_and_missing_labels_are_found(shown: tuple[Page, list[str]]) -> None:
    page, content = shown
    content[0] = '<p><font color="#cccccc">Pale</font></p><form><input name="nameless"></form>'
    await page.open("/")
    assert {found.partition(":")[0] for found in await findings(page)} == {"color-contrast", "label"}


@pytest.mark.parametrize(
    "content", ['<p style="color: red">inline</p>', "<script>1</script>", '<img alt="" src="https://elsewhere.example/x.png">']
)
async def test_what_the_policy_forbids_is_found(content: str, shown: tuple[Page, list[str]]) -> None:
    page, contents = shown
    contents[0] = content
    await page.open("/")
    await page.heard.until(lambda: any("ContentSecurityPolicy" in one for one in page.violations))


async def test_a_form_that_may_not_be_sent_is_found(shown: tuple[Page, list[str]]) -> None:
    page, content = shown
    content[0] = '<form action="https://elsewhere.example/" method="post"><button>Go</button></form>'
    await page.open("/")
    await page.click("Go")
    await page.heard.until(lambda: any("form-action" in one for one in page.violations))


async def test_what_the_keyboard_cannot_reach_is_found(shown: tuple[Page, list[str]]) -> None:
    page, content = shown
    # As with `float` and grids: the visual order is not the order of the Tab key.
    content[0] = '<p><a href="/one">One</a> <a href="/two" tabindex="1">Two</a></p>'
    await page.open("/")
    with pytest.raises(AssertionError):
        await require_keyboard(page)


async def test_a_page_that_is_too_wide_is_found(shown: tuple[Page, list[str]]) -> None:
    page, content = shown
    content[0] = "<pre>" + "x" * 200 + "</pre>"
    await page.open("/")
    await page.show(width=NARROW)
    with pytest.raises(AssertionError, match="wider"):
        await require_sound(page)
