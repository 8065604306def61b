"""The application for MCP clients that have no metadata document: it admits the addresses that they publish, and nothing beside them."""

from typing import Any, Final
from urllib.parse import urlencode

import pytest

from entrypoints.http.console.organization.applications.making import REDIRECT_URIS
from tests.http.federation.arriving import AUTHORIZE, CHALLENGE, VERIFIER, left, told
from tests.http.federation.relying import FORM, claims_of
from tests.http.pages.console.applications.conftest import AT, made
from tests.http.pages.console.conftest import ConsoleScene

API: Final = "http://localhost:8000/mcp"


async def prepared(console: ConsoleScene) -> str:
    """The client id, in an organization with an API that admits all of its applications."""
    await console.at("/apis/~new")
    await console.submit("/apis/~new", identifier=API, name="Orders", admits="all", scopes=["orders:read", "See your orders", "", "", ""])
    await made(console, "MCP clients", kind="mcp", addresses="")
    (service,) = console.people.rows("select client_id::text as id from services")
    return str(service["id"])


def asking(client: str, redirect_uri: str, **changed: str | None) -> str:
    fields = {
        "client_id": client,
        "redirect_uri": redirect_uri,
        "response_type": "code",
        "scope": "orders:read",
        "resource": API,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changed,
    }
    return f"{AUTHORIZE}?{urlencode({name: value for name, value in fields.items() if value is not None})}"


async def test_one_click_makes_a_public_application_with_the_published_addresses(console: ConsoleScene) -> None:
    await console.at("/apis/~new")
    await console.submit("/apis/~new", identifier=API, name="Orders", admits="all")
    (api,) = console.people.rows("select id from resource_servers")
    (link,) = [link for link in (await console.at(f"/apis/{api['id']}")).page.links if link.endswith("?kind=mcp")]
    await console.tab.open(link)
    fields = console.fields(f"{AT}/~new").fields
    assert (fields["name"], fields["kind"], fields["policy"]) == ("MCP clients", "mcp", "members")
    await console.submit(f"{AT}/~new")
    (service,) = console.people.rows("select slug, service_type, redirect_uris, client_id::text as id from services")
    assert (service["slug"], service["service_type"], service["redirect_uris"]) == ("mcp-clients", "desktop", list(REDIRECT_URIS))
    assert console.people.rows("select from client_secrets") == []
    text = console.tab.page.text
    products = ("Cursor", "VS Code", "Gemini CLI")
    for words in (*products, ".cursor/mcp.json", f'"CLIENT_ID": "{service["id"]}"', f'"clientId": "{service["id"]}"'):
        assert words in text, words
    assert (await console.at(f"{AT}/~new?kind=nonsense")).status == 200
    assert console.fields(f"{AT}/~new").fields["kind"] == "web"


async def test_addresses_of_other_clients_come_on_top(console: ConsoleScene) -> None:
    addresses = f"{REDIRECT_URIS[0]}\nhttps://claude.ai/api/mcp/auth_callback"
    await made(console, "MCP clients", kind="mcp", addresses=addresses, elsewhere="yes")
    (service,) = console.people.rows("select redirect_uris from services")
    assert service["redirect_uris"] == [*REDIRECT_URIS, "https://claude.ai/api/mcp/auth_callback"]


@pytest.mark.parametrize("redirect_uri", REDIRECT_URIS)
async def test_a_client_signs_a_person_in_at_each_published_address(console: ConsoleScene, redirect_uri: str) -> None:
    client = await prepared(console)
    tab = await console.tab.open(asking(client, redirect_uri))
    assert tab.place.startswith("/ui/consent")
    code = left(await tab.send(answer="allow"), redirect_uri)["code"]
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": VERIFIER,
        "client_id": client,
    }
    tokens: dict[str, Any] = (await console.client.request("POST", "/auth/token", body=urlencode(fields).encode(), headers=[FORM])).ok()
    console.log.remember(tokens["access_token"], tokens["refresh_token"], code)
    claims = claims_of(tokens["access_token"])
    assert (claims["aud"], claims["scope"], claims["client_id"]) == (API, "orders:read", client)


_OTHERS: Final = (
    *("cursor://evil", "cursor://evil/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback/", "cursor:/oauth/callback"),
    *(
        "cursor://anysphere.cursor-mcp/oauth",
        "cursor://anysphere.cursor-mcp/oauth/callback2",
        "cursor://anysphere.cursor-mcp/oauth/callback?a",
    ),
    *(
        "CURSOR://anysphere.cursor-mcp/oauth/callback",
        "cursor://Anysphere.cursor-mcp/oauth/callback",
        "cursor2://anysphere.cursor-mcp/oauth/callback",
    ),
    *("https://vscode.dev/redirect/", "https://vscode.dev/redirect?url=https://evil.example", "https://vscode.dev:443/redirect"),
    *("https://evil.vscode.dev/redirect", "http://vscode.dev/redirect", "vscode://anysphere.cursor-mcp/oauth/callback"),
    *("http://127.0.0.1", "http://127.0.0.1:33418/redirect", "http://localhost:33418/", "http://localhost:7777/oauth/callback/"),
    *("http://127.0.0.1:7777/callback", "http://evil.example:7777/oauth/callback", "http://localhost.evil.example/callback"),
)


@pytest.mark.parametrize("redirect_uri", _OTHERS)
async def test_no_variant_gets_an_answer(console: ConsoleScene, redirect_uri: str) -> None:
    client = await prepared(console)
    tab = await console.tab.open(asking(client, redirect_uri))
    assert (tab.status, tab.place.startswith(AUTHORIZE)) == (400, True)
    assert console.people.rows("select from authorization_codes") == []


async def test_any_port_of_the_device_itself_and_only_with_pkce(console: ConsoleScene) -> None:
    client = await prepared(console)
    for redirect_uri in (
        "http://127.0.0.1:59656/",
        "http://localhost:3118/callback",
        "http://localhost:50001/oauth/callback",
        "http://127.0.0.1:9/oauth/callback",
    ):
        assert (await console.tab.open(asking(client, redirect_uri))).place.startswith("/ui/consent")
    bare = asking(client, REDIRECT_URIS[0], code_challenge=None, code_challenge_method=None)
    answer = told((await console.tab.open(bare)).shown, REDIRECT_URIS[0])
    assert answer["error"] == "invalid_request"
