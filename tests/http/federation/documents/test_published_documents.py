"""The documents that well-known programs publish, in the form in which they publish them, on hosts of ours."""

from typing import Any, Final

import pytest

from tests.http.federation.arriving import left, told
from tests.http.federation.documents.publishing import PublishingClients
from tests.http.federation.relying import claims_of
from tests.http.federation.test_published_keys import published
from tests.receiver import answering

# What the program publishes, an address that it asks to come back to, and one that it does not have.
CLAUDE_CODE: Final[dict[str, Any]] = {
    "client_id": "https://claude.client.example/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "client_uri": "https://claude.client.example",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
VS_CODE: Final[dict[str, Any]] = {
    "client_name": "Visual Studio Code",
    "logo_uri": "https://code.client.example/assets/branding/code-stable.png",
    "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "application_type": "native",
    "client_id": "https://vscode.client.example/oauth/client-metadata.json",
    "client_uri": "https://vscode.client.example/product",
    "redirect_uris": ["http://127.0.0.1:33418/", "https://vscode.client.example/redirect"],
}
CHAT_GPT: Final[dict[str, Any]] = {
    "client_id": "https://chatgpt.client.example/oauth/client.json",
    "client_name": "ChatGPT",
    "client_uri": "https://chatgpt.client.example",
    "redirect_uris": ["https://chatgpt.client.example/connector_platform_oauth_redirect"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.client.example/oauth/jwks.json",
}


def _published(clients: PublishingClients, document: dict[str, Any]) -> str:
    clients.api()
    address = str(document["client_id"])
    clients.let_in(None, "named", address.split("/")[2])
    clients.publish(address, **document)
    return address


@pytest.mark.parametrize("back", ["http://localhost:52011/callback", "http://127.0.0.1:40123/callback", "http://localhost/callback"])
async def test_claude_code(clients: PublishingClients, back: str) -> None:
    address = _published(clients, CLAUDE_CODE)
    tab = await clients.consents(client_id=address, redirect_uri=back)
    # Any program on the device can claim the port, and the page says so.
    for words in ("Claude Code", "claude.client.example", "an application on your device", back.split("/")[2]):
        assert words in tab.page.text
    code = left(await tab.send(answer="allow"), back)["code"]
    tokens = clients.kept((await clients.exchanged(code, address, back)).ok())
    assert claims_of(tokens["access_token"])["client_id"] == address
    # The device proves nothing, so the person is asked each time.
    await clients.consents(client_id=address, redirect_uri=back)


@pytest.mark.parametrize(
    ("back", "enters"),
    [
        ("http://127.0.0.1:33418/", True),
        ("http://127.0.0.1:50000/", True),
        ("https://vscode.client.example/redirect", True),
        ("https://vscode.client.example/redirect/", False),
        ("https://vscode.client.example:8443/redirect", False),
        ("http://localhost:33418/", False),
        ("http://127.0.0.1:33418/other", False),
    ],
)
async def test_visual_studio_code(clients: PublishingClients, back: str, enters: bool) -> None:
    address = _published(clients, VS_CODE)
    if not enters:
        answer = await clients.browser().request("GET", clients.asks(client_id=address, redirect_uri=back))
        assert (answer.status, answer.header("location")) == (400, None)
        return
    tokens = clients.kept((await clients.exchanged(await clients.code_of(client_id=address, back=back), address, back)).ok())
    assert claims_of(tokens["access_token"])["client_id"] == address
    # Its picture is not fetched, and no page shows it.
    assert {call.target for call in clients.receiver.calls} == {"/oauth/client-metadata.json"}


async def test_chat_gpt(clients: PublishingClients) -> None:
    address = _published(clients, CHAT_GPT)
    clients.answers(published(), "https://chatgpt.client.example/oauth/jwks.json")
    (back,) = CHAT_GPT["redirect_uris"]
    code = await clients.code_of(client_id=address, back=back)
    # Without its signature, nobody redeems its codes.
    assert (await clients.exchanged(code, address, back)).status == 401
    assert "code" in told(await clients.browser().request("GET", clients.asks(client_id=address, redirect_uri=back)), back)
    clients.answers(answering(500), address)
    assert len(clients.services()) == 1
