"""mcp-remote as it comes: the program that gives clients without a sign-in of their own a remote MCP server. It knows nothing but open
registration. `make middleware` installs it.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final
from uuid import UUID

import pytest
import trio

from ops.browser.chromium import Chromium
from ops.browser.page import new_page
from ops.middleware.installed import INSTALLED
from tests.e2e.mcp.conftest import Workshop
from tests.e2e.mcp.test_walks import asked, change, sign_in
from tests.patience import PATIENCE

PROXY: Final = INSTALLED / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PROXY.exists(), reason="make middleware installs mcp-remote")]


class Remote:
    """Speaks JSON-RPC with the proxy by its standard streams."""

    def __init__(self, process: trio.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._heard = bytearray()

    async def said(self, pattern: str) -> str:
        """What the proxy tells the person, on its third stream."""
        with trio.fail_after(PATIENCE):
            while (found := re.search(pattern, self._log.read_text())) is None:
                assert self._process.poll() is None, self._log.read_text()[-4000:]
                await trio.sleep(0.05)
        return found[1]

    async def tell(self, method: str, number: int | None = None, **params: Any) -> None:
        assert self._process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
        await self._process.stdin.send_all(json.dumps(message).encode() + b"\n")

    async def result(self, number: int) -> Any:
        assert self._process.stdout is not None
        with trio.fail_after(PATIENCE):
            while True:
                while b"\n" not in self._heard:
                    part = await self._process.stdout.receive_some()
                    assert part, self._log.read_text()[-4000:]
                    self._heard += part
                line, _, self._heard = self._heard.partition(b"\n")
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return message["result"]


def programs(workshop: Workshop) -> set[UUID]:
    """Those that registered themselves."""
    return {row["id"] for row in change(workshop, "select id from all_services where kept_client_id like 'open:%' and name like 'MCP%'")}


@asynccontextmanager
async def remote(workshop: Workshop) -> AsyncIterator[Remote]:
    log = workshop.place / "mcp-remote.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    environment = {
        **inherited,
        "MCP_REMOTE_CONFIG_DIR": str(workshop.place / "mcp-auth"),
        "NODE_EXTRA_CA_CERTS": workshop.exported["NODE_EXTRA_CA_CERTS"],
    }
    # The browser of the tests knows no localhost.
    command = [*workshop.within, "node", str(PROXY), workshop.resource, "--transport", "http-only", "--host", "127.0.0.1"]
    with log.open("wb") as out:
        process = await trio.lowlevel.open_process(command, cwd=workshop.place, env=environment, stdin=PIPE, stdout=PIPE, stderr=out)
    try:
        yield Remote(process, log)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            await stream.aclose()


async def test_mcp_remote_registers_itself_and_calls_a_tool(documented: Workshop, chromium: Chromium) -> None:
    client = {"name": "test", "version": "1"}
    # Other walks in the process have made theirs on the same server.
    before = programs(documented)
    async with new_page(chromium, "", scripts=True) as page:
        with documented.serving("server.py"):
            async with remote(documented) as proxy:
                address = await proxy.said(r"visiting:\s*(\S+)")
                assert asked(address)["client_id"].startswith("open:")
                await sign_in(page, address, documented.ada)
                shown = await page.text()
                assert shown.index("unregistered app on this device") < shown.index("The app calls itself MCP")
                # The page of mcp-remote may close itself.
                await page.click("Allow")
                await proxy.tell("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
                assert "serverInfo" in await proxy.result(1)
                await proxy.tell("notifications/initialized")
                await proxy.tell("tools/list", 2)
                assert [one["name"] for one in (await proxy.result(2))["tools"]] == ["who_am_i", "add_note"]
                await proxy.tell("tools/call", 3, name="who_am_i", arguments={})
                assert (await proxy.result(3))["content"][0]["text"] == documented.ada.id
    assert len(programs(documented) - before) == 1
