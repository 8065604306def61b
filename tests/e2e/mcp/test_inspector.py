"""The MCP Inspector as it comes, by its command line, which registers itself and signs the person in through a browser.

`make middleware` installs it.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
import trio

from ops.browser.chromium import Chromium
from ops.browser.page import new_page
from ops.middleware.clients_of_others import CLIENTS, inspector
from tests.e2e.mcp.conftest import PAGE, Workshop
from tests.e2e.mcp.test_walks import asked, change, sign_in
from tests.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CLIENTS.exists(), reason="make middleware installs the Inspector")]


def arguments(workshop: Workshop) -> list[str]:
    """What the guide gives it, with this trial's address."""
    (line,) = re.findall(r"^npx @modelcontextprotocol/inspector (.+)$", PAGE.text, re.MULTILINE)
    return [workshop.resource if one.startswith("https:") else one for one in line.split()]


@asynccontextmanager
async def inspecting(workshop: Workshop) -> AsyncIterator[tuple[trio.Process, Path]]:
    log = workshop.place / "inspector.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    authority = workshop.exported["NODE_EXTRA_CA_CERTS"]
    environment = {**inherited, "HOME": str(workshop.place), "NODE_EXTRA_CA_CERTS": authority}
    # Without a terminal, the Inspector asks nobody to sign in, unless it may open a browser. This one opens nothing.
    environment |= {"MCP_AUTO_OPEN_ENABLED": "true", "BROWSER": "true"}
    command = [*workshop.within, *inspector(), *arguments(workshop), "--format", "json"]
    with log.open("wb") as out:
        process = await trio.lowlevel.open_process(command, cwd=workshop.place, env=environment, stdin=PIPE, stdout=out, stderr=out)
    try:
        yield process, log
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        assert process.stdin is not None
        await process.stdin.aclose()


async def said(process: trio.Process, log: Path, pattern: str) -> str:
    with trio.fail_after(PATIENCE):
        while (found := re.search(pattern, log.read_text())) is None:
            assert process.poll() is None, log.read_text()[-4000:]
            await trio.sleep(0.05)
    return found[1]


async def test_the_inspector_registers_itself_and_calls_a_tool(documented: Workshop, chromium: Chromium) -> None:
    async with new_page(chromium, "", scripts=True) as page:
        with documented.serving("server.py"):
            async with inspecting(documented) as (process, log):
                address = await said(process, log, r"navigate to:\s*(\S+)")
                assert asked(address)["client_id"].startswith("open:")
                await sign_in(page, address, documented.ada)
                shown = await page.text()
                assert shown.index("unregistered app on this device") < shown.index("The app calls itself MCP Inspector")
                await page.click("Allow")
                with trio.fail_after(PATIENCE):
                    assert await process.wait() == 0, log.read_text()[-4000:]
                (answer,) = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"result"')]
                assert answer["result"]["content"][0]["text"] == documented.ada.id
    assert len(change(documented, "select id from all_services where kept_client_id like 'open:%' and name like 'MCP Inspector%'")) == 1
