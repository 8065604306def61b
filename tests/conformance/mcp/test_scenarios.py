"""The scenarios of MCP's own suite for authorization servers, as it comes from npm. A person in Chromium signs in and allows. The client
is an application that a developer has registered, or the one of the console's preset for MCP clients without a document.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

import pytest
import trio

from ops.browser.chromium import PROGRAM, Chromium
from ops.browser.page import Page, new_page
from ops.conformance.plans import ROOT
from ops.free_ports import free_port
from ops.guides.tenants import Tenant, tenant
from tests.browser.conftest import browser_process, chromium
from tests.e2e.mcp.test_walks import sign_in
from tests.patience import PATIENCE
from tests.tools import needs

__all__ = ["browser_process", "chromium"]  # fixtures

_INSTALLED: Final = ROOT / ".venv" / "conformance" / "node_modules"
_SUITE: Final = _INSTALLED / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# The suite needs a newer Node than Debian's, and npm brings the one of this machine.
_NODES: Final = sorted(_INSTALLED.glob("node-*/bin/node"))
_SERVICES: Final = "/api/organizations/acme/services"
pytestmark = [
    pytest.mark.only_whole,
    needs(PROGRAM),
    pytest.mark.skipif(not (_SUITE.exists() and _NODES), reason="npm found no registry: make .venv/ready-conformance installs MCP's suite"),
]


@pytest.fixture(scope="module")
def house() -> Iterator[Tenant]:
    with tenant() as made:
        yield made


@pytest.fixture
async def page(house: Tenant, chromium: Chromium) -> AsyncIterator[Page]:
    async with new_page(chromium, house.issuer, scripts=True) as opened:
        await sign_in(opened, "/ui/sign-in", house.ada)
        yield opened


async def is_passed(page: Page, house: Tenant, place: Path, scenario: str, client_id: str, port: int) -> None:
    """Runs the suite, whose second scenario goes on with what the first found. Where it wants a person, they open its address and allow."""
    callback = f"http://127.0.0.1:{port}/callback"
    asked = ["--url", house.issuer, "--client-id", client_id, "--port", str(port), "--output-dir", str(place)]
    command = [str(_NODES[0]), str(_SUITE), "authorization", *asked]
    process = await trio.lowlevel.open_process(command, stdout=PIPE, stderr=STDOUT)
    told, opened = "", False
    assert process.stdout is not None
    try:
        with trio.fail_after(PATIENCE):
            while part := await process.stdout.receive_some():
                told += part.decode()
                address = re.search(r"(http\S+/oauth/authorize\?\S+)\s", told)
                if address and not opened and "Callback server started" in told:
                    opened = True
                    await page.open(address[1])
                    if "Allow" in await page.text():
                        await page.click("Allow")
                    await page.arrived(callback)
            assert await process.wait() == 0, told
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await process.stdout.aclose()
    (checks,) = [json.loads(file.read_text()) for file in place.glob(f"*{scenario}*/checks.json")]
    assert checks
    assert {check["status"] for check in checks} <= {"SUCCESS", "INFO"}, checks


def registered(house: Tenant, port: int) -> str:
    """A developer registers an application with the suite's address."""
    asked = {"slug": f"suite{port}", "name": "Suite", "service_type": "desktop", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
    return str(house.ada.ask("POST", _SERVICES, asked)["service"]["client_id"])


async def by_preset(house: Tenant, page: Page) -> str:
    """The owner adds the console's application for MCP clients without a document, once, and the suite's address to the clients'."""

    def known() -> dict[str, str]:
        return {one["slug"]: one["client_id"] for one in house.ada.ask("GET", _SERVICES)["services"]}

    if "mcp-clients" not in known():
        await page.open("/ui/o/acme/applications/~new?kind=mcp")
        await page.follow("Create application")
        there = f"{_SERVICES}/mcp-clients"
        addresses = house.ada.ask("GET", there)["redirect_uris"]
        # Of an application on people's devices, the ports of addresses on the device itself do not count.
        house.ada.ask("PATCH", there, {"redirect_uris": [*addresses, "http://127.0.0.1/callback"]})
    return known()["mcp-clients"]


async def test_authorization_server_metadata_endpoint(house: Tenant, page: Page, tmp_path: Path) -> None:
    port = free_port()
    await is_passed(page, house, tmp_path, "authorization-server-metadata-endpoint", registered(house, port), port)


async def test_authorization_code_grant(house: Tenant, page: Page, tmp_path: Path) -> None:
    port = free_port()
    await is_passed(page, house, tmp_path, "authorization-code-grant", registered(house, port), port)


async def test_authorization_server_metadata_endpoint_by_preset(house: Tenant, page: Page, tmp_path: Path) -> None:
    await is_passed(page, house, tmp_path, "authorization-server-metadata-endpoint", await by_preset(house, page), free_port())


async def test_authorization_code_grant_by_preset(house: Tenant, page: Page, tmp_path: Path) -> None:
    await is_passed(page, house, tmp_path, "authorization-code-grant", await by_preset(house, page), free_port())
