"""Clients of MCP sign in through a browser and call tools: from the first 401 to the end of the session. Both SDKs, on both sides.

`make middleware` installs the SDK for TypeScript; without it, the SDK for Python talks to itself.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import product
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import trio

from ops.browser.chromium import Chromium
from ops.browser.page import Page, new_page
from ops.guides.tenants import PASSWORD, Person
from tests.browser.checks import enter
from tests.e2e.mcp.conftest import IN_NODE, Program, Workshop
from tests.e2e.postern import until
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

PAIRS: Final = [
    pytest.param(client, server, id=f"{client}-{server}")
    for client, server in product(("client.py", "client.mjs"), ("server.py", "server.mjs"))
    if IN_NODE or ".mjs" not in client + server
]


@pytest.fixture
async def page(chromium: Chromium) -> AsyncIterator[Page]:
    async with new_page(chromium, "", scripts=True) as opened:
        yield opened


def asked(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def change(workshop: Workshop, statement: str) -> list[dict[str, Any]]:
    with psycopg.connect(workshop.tenant.server.database_url, row_factory=psycopg.rows.dict_row) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


async def answered(calling: Program, tool: str, **arguments: Any) -> str:
    await calling.ask(tool, **arguments)
    return await calling.told("Result:")


async def sign_in(page: Page, address: str, person: Person) -> None:
    await page.open(address)
    await enter(page, {"Email address": person.email})
    await enter(page, {"Password": PASSWORD})


async def answer(page: Page, address: str, button: str = "Allow") -> None:
    """Answers the request, and waits until the browser is back at the client."""
    await page.click(button)
    await page.arrived(asked(address)["redirect_uri"])


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_a_person_lets_a_client_in(workshop: Workshop, page: Page, client: str, server: str) -> None:
    await walk(workshop, page, client, server, ["Revoke access for Assistant", "Revoke access"])


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_a_person_lets_a_client_in_that_nobody_has_registered(documented: Workshop, page: Page, client: str, server: str) -> None:
    """A client by document acts as the person's agent, so what it does ends at one API, and at once."""
    await walk(documented, page, client, server, ["Revoke access of Assistant to Tools"])


async def test_a_client_registers_itself_and_calls_a_tool(documented: Workshop, page: Page) -> None:
    """The SDK for Python as it comes, which FastMCP's client stands on: nobody has given it a client id, and it has no document."""
    with documented.serving("server.py"):
        async with documented.program("open_client.py") as calling:
            address = await calling.told("Open ")
            said = asked(address)
            assert said["client_id"].startswith("open:")
            await sign_in(page, address, documented.ada)
            shown = await page.text()
            assert shown.index("unregistered app on this device") < shown.index("The app calls itself Assistant")
            await answer(page, address)
            assert await calling.told("Tools:") == "who_am_i add_note"
            assert await answered(calling, "who_am_i") == documented.ada.id
    ours = "select name, redirect_uris from all_services where kept_client_id like 'open:%' and name = 'Assistant'"
    (service,) = change(documented, ours)
    assert service == {"name": "Assistant", "redirect_uris": ["http://127.0.0.1/callback"]}


async def walk(workshop: Workshop, page: Page, client: str, server: str, end: Sequence[str]) -> None:
    """From the first 401 to the end that the person sets with these links and buttons."""
    ada = workshop.ada
    ahead = workshop.place / "ahead"
    ahead.unlink(missing_ok=True)
    if client == "client.mjs":
        # It asks for another token once the server refuses the first one. No organization may set as short a lifetime.
        change(workshop, "alter table resource_servers drop constraint if exists resource_servers_token_lifetime_check")
        change(workshop, "update resource_servers set token_lifetime = 2")
    before = workshop.token_answers()
    with workshop.serving(server):
        async with workshop.program(client) as calling:
            address = await calling.told("Open ")
            said = asked(address)
            assert said["client_id"] == workshop.exported["ASSISTANT_ID"]
            assert (said["resource"], said["scope"].split()[0], said["code_challenge_method"]) == (workshop.resource, "notes:read", "S256")
            await sign_in(page, address, ada)
            shown = await page.text()
            assert all(words in shown for words in ("At Tools, Assistant will be able to:", workshop.resource, "Read your notes"))
            assert "Write notes" not in shown
            await answer(page, address)
            assert await calling.told("Tools:") == "who_am_i add_note"
            change(workshop, "update resource_servers set token_lifetime = null")
            # The token expires, and the client gets another one.
            ahead.touch()
            with trio.fail_after(PATIENCE):
                while workshop.token_answers() - before < Counter({200: 2}):
                    assert await answered(calling, "who_am_i") == ada.id
            # A tool that needs more: 403, and the person is asked for it.
            await calling.ask("add_note", text="milk")
            address = await calling.told("Open ")
            assert {"notes:read", "notes:write"} <= set(asked(address)["scope"].split())
            await page.open(address)
            assert "Write notes in your name" in await page.text()
            await answer(page, address)
            assert await calling.told("Result:") == f"{ada.id} wrote milk"
            assert await answered(calling, "who_am_i") == ada.id
            # The person takes it away: the next call is refused, and so is the refresh. The client begins anew, and is not let in.
            await page.open(f"{workshop.tenant.issuer}/ui/applications")
            for name in end:
                await page.follow(name)
            await calling.ask("who_am_i")
            address = await calling.told("Open ")
            await page.open(address)
            await answer(page, address, "Deny")
            with pytest.raises(AssertionError, match="access_denied"):
                await calling.line()


if IN_NODE:

    @pytest.mark.parametrize("server", ["server.py", "server.mjs"])
    async def test_version_1_of_the_sdk_for_typescript_asks_for_no_more_scopes(workshop: Workshop, page: Page, server: str) -> None:
        """It tries its refresh token first, which brings no more scopes, and gives up. The guide says so."""
        with workshop.serving(server):
            async with workshop.program("client1.mjs") as calling:
                address = await calling.told("Open ")
                await sign_in(page, address, workshop.ada)
                await answer(page, address)
                assert await calling.told("Tools:") == "who_am_i add_note"
                assert await answered(calling, "who_am_i") == workshop.ada.id
                await calling.ask("add_note", text="milk")
                with pytest.raises(AssertionError, match="403 after trying upscoping"):
                    await calling.line()


@pytest.mark.parametrize("client", ["vscode_client.py", *(["vscode_client.mjs"] if IN_NODE else [])])
async def test_the_application_for_clients_without_a_document_lets_them_in(workshop: Workshop, page: Page, client: str) -> None:
    issuer, services = workshop.tenant.issuer, "/api/organizations/acme/services"
    await sign_in(page, f"{issuer}/ui/sign-in", workshop.ada)
    if "mcp-clients" not in (known := {one["slug"]: one for one in workshop.ada.ask("GET", services)["services"]}):
        await page.open(f"{issuer}/ui/o/acme/applications/~new?kind=mcp")
        await page.follow("Create application")
        known = {one["slug"]: one for one in workshop.ada.ask("GET", services)["services"]}
    with workshop.serving("server.py"):
        async with workshop.program(client, ASSISTANT_ID=known["mcp-clients"]["client_id"]) as calling:
            address = await calling.told("Open ")
            await page.open(address)
            assert "MCP clients" in await page.text()
            await answer(page, address)
            assert await calling.told("Tools:") == "who_am_i add_note"
            assert await answered(calling, "who_am_i") == workshop.ada.id


@pytest.mark.parametrize(("client", "server"), PAIRS[:1])
async def test_a_client_that_is_not_admitted_is_among_the_refusals(workshop: Workshop, page: Page, client: str, server: str) -> None:
    api = f"/api/organizations/acme/resource-servers/{workshop.exported['RESOURCE_ID']}"
    workshop.ada.ask("PATCH", api, {"admits": "named"})
    try:
        with workshop.serving(server):
            async with workshop.program(client) as calling:
                address = await calling.told("Open ")
                await page.open(address)
                await page.arrived(asked(address)["redirect_uri"])
                with pytest.raises(AssertionError, match="invalid_target"):
                    await calling.line()
        # It appears a second later, beside what other tests were refused.
        kept = "/api/organizations/acme/services/assistant/refusals"
        (refusal,) = until(lambda: [one for one in workshop.ada.ask("GET", kept)["refusals"] if one["place"] == "authorize"])
        assert refusal["received"] == workshop.resource
        assert "allow the application on the API's page" in refusal["advice"]
    finally:
        workshop.ada.ask("PATCH", api, {"admits": "all"})
