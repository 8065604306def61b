"""FastMCP as it comes, with the lines of the guide: its client, which registers itself, and its server, which sends clients to Postern.

`make middleware` installs it.
"""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from ops.browser.chromium import Chromium
from ops.browser.page import Page, new_page
from ops.middleware.clients_of_others import CLIENTS
from tests.e2e.mcp.conftest import Workshop
from tests.e2e.mcp.test_walks import asked, change, sign_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CLIENTS.exists(), reason="make middleware installs FastMCP")]

_BROWSER: Final = {"BROWSER": "echo Open %s"}
"""Python's `webbrowser` opens a page with this command. The page of the test goes there."""


@pytest.fixture
async def page(chromium: Chromium) -> AsyncIterator[Page]:
    async with new_page(chromium, "", scripts=True) as opened:
        yield opened


@pytest.mark.parametrize("server", ["server.py", "fastmcp_server.py"])
async def test_its_client_registers_itself_and_calls_a_tool(documented: Workshop, page: Page, server: str) -> None:
    tools = {"server.py": "who_am_i add_note", "fastmcp_server.py": "who_am_i"}
    with documented.serving(server):
        async with documented.program("fastmcp_client.py", **_BROWSER) as calling:
            address = await calling.told("Open ")
            said = asked(address)
            assert (said["client_id"].partition(":")[0], said["resource"]) == ("open", documented.resource)
            await sign_in(page, address, documented.ada)
            shown = await page.text()
            assert shown.index("unregistered app on this device") < shown.index("The app calls itself FastMCP Client")
            assert "Read your notes" in shown
            await page.click("Allow")
            assert await calling.told("Tools:") == tools[server]
            assert await calling.told("Result:") == documented.ada.id
    services = change(documented, "select name from all_services where kept_client_id like 'open:%' and name = 'FastMCP Client'")
    assert len(services) == 1
