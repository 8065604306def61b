"""What the guide's MCP servers refuse, and in which words a client hears it: another audience, another type, a scope that is missing, and
messages that say which tool they call in a way of their own.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pytest

from tests.e2e.mcp.conftest import IN_NODE, Workshop
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

SERVERS: Final = ["server.py", *(["server.mjs"] if IN_NODE else [])]
READS, WRITES = "notes:read", "notes:read notes:write"


class Caller:
    def __init__(self, workshop: Workshop, client: httpx.Client) -> None:
        self.workshop = workshop
        self._client = client

    def token(self, scope: str = "", **fields: str) -> str:
        """A token of the service's own."""
        client = (self.workshop.exported["OIDC_CLIENT_ID"], self.workshop.exported["OIDC_CLIENT_SECRET"])
        asked = {"grant_type": "client_credentials", **({"scope": scope} if scope else {}), **fields}
        answer = self._client.post(f"{self.workshop.tenant.issuer}/auth/token", auth=client, data=asked)
        return str(answer.raise_for_status().json()["access_token"])

    def to_tools(self, scope: str) -> str:
        return self.token(scope, resource=self.workshop.resource)

    def post(self, body: str, *tokens: str, content_type: str | None = "application/json", method: str = "POST") -> httpx.Response:
        headers = [("Accept", "application/json, text/event-stream"), *(("Authorization", f"Bearer {token}") for token in tokens)]
        if content_type is not None:
            headers.append(("Content-Type", content_type))
        # A header of bytes as they are: `httpx` would write them in UTF-8.
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        return self._client.request(method, self.workshop.resource, content=body.encode("latin-1"), headers=raw)

    def get(self, path: str) -> httpx.Response:
        return self._client.get(f"http://127.0.0.1:{self.workshop.port}{path}")


@pytest.fixture(scope="module", params=SERVERS)
def caller(request: pytest.FixtureRequest, workshop: Workshop) -> Iterator[Caller]:
    with workshop.serving(request.param), httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        yield Caller(workshop, client)


def call(tool: str, **message: Any) -> str:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"text": "milk"}}, **message}
    )


def challenge(answer: httpx.Response) -> str:
    return answer.headers["WWW-Authenticate"]


def test_the_server_says_where_to_get_tokens(caller: Caller) -> None:
    metadata = f"http://127.0.0.1:{caller.workshop.port}/.well-known/oauth-protected-resource/mcp"
    answer = caller.post(call("who_am_i"))
    assert (answer.status_code, f'resource_metadata="{metadata}"' in challenge(answer)) == (401, True)
    told = (caller.get("/.well-known/oauth-protected-resource/mcp")).raise_for_status()
    document = told.json()
    assert document["resource"] == caller.workshop.resource
    assert document["authorization_servers"] == [caller.workshop.tenant.issuer]
    assert document["scopes_supported"] == [READS]
    for other in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp2", "/other"):
        assert (caller.get(other)).status_code == 404


def test_a_token_for_the_server_opens_its_tools(caller: Caller) -> None:
    client = caller.workshop.exported["OIDC_CLIENT_ID"]
    answer = caller.post(call("who_am_i"), caller.to_tools(READS))
    assert answer.json()["result"]["content"][0]["text"] == client
    answer = caller.post(call("add_note"), caller.to_tools(WRITES))
    assert answer.json()["result"]["content"][0]["text"] == f"{client} wrote milk"


OTHERS: Final[dict[str, Callable[[Caller], str]]] = {
    "nonsense": lambda _: "x.y.z",
    "altered": lambda caller: f"{caller.to_tools(READS)[:-6]}AAAAAA",
    "of a person, for Postern itself": lambda caller: caller.workshop.ada.token,
    "of the service, for no API": lambda caller: caller.token(),
    "for another API": lambda caller: caller.token(READS, resource=other_api(caller)),
}


def other_api(caller: Caller) -> str:
    """The server's name with a slash, which is another API of the organization."""
    identifier = f"{caller.workshop.resource}/"
    servers = "/api/organizations/acme/resource-servers"
    known = {one["identifier"] for one in caller.workshop.ada.ask("GET", servers)}
    if identifier not in known:
        scopes = [{"name": READS, "description": "Read your notes"}]
        wanted = {"identifier": identifier, "name": "Other", "admits": "all", "scopes": scopes, "service_slug": "tools"}
        caller.workshop.ada.ask("POST", servers, wanted)
    return identifier


@pytest.mark.parametrize("other", OTHERS)
def test_another_token_opens_nothing(caller: Caller, other: str) -> None:
    answer = caller.post(call("who_am_i"), OTHERS[other](caller))
    assert (answer.status_code, 'error="invalid_token"' in challenge(answer)) == (401, True)


def test_a_token_elsewhere_than_in_one_header_opens_nothing(caller: Caller) -> None:
    token = caller.to_tools(READS)
    for several in ((token, "x"), ("x", token)):
        answer = caller.post(call("who_am_i"), *several)
        assert (answer.status_code, 'error="invalid_token"' in challenge(answer)) == (401, True)


def test_a_tool_asks_for_all_that_it_needs(caller: Caller) -> None:
    answer = caller.post(call("add_note"), caller.to_tools(READS))
    told = challenge(answer)
    assert answer.status_code == 403
    assert all(part in told for part in ('error="insufficient_scope"', f'scope="{WRITES}"', "resource_metadata="))
    # A token without the scope of the whole server.
    assert (caller.post(call("who_am_i"), caller.to_tools("notes:write"))).status_code == 403


_CALL: Final = '"jsonrpc": "2.0", "id": 1, "method": "tools/call"'
WAYS_AROUND: Final = {
    "a batch": f"[{call('who_am_i')}, {call('add_note')}]",
    "a name that is written otherwise": call("add_note").replace("add_note", "\\u0061dd_note"),
    "two names": f'{{{_CALL}, "params": {{"name": "who_am_i", "name": "add_note", "arguments": {{"text": "milk"}}}}}}',
    "two names, the other first": f'{{{_CALL}, "params": {{"name": "add_note", "name": "who_am_i", "arguments": {{"text": "milk"}}}}}}',
    "two methods": call("add_note").replace('"method"', '"method": "ping", "method"'),
    "another case": call("add_note", method="Tools/Call"),
    "nothing that can be read": '{"method": "tools/call", "params": {"name": "add_note"',
    "a name in a list": call("add_note").replace('"add_note"', '["add_note"]'),
    "a task": call("add_note", task={"ttl": 1000}),
    "UTF-16": call("add_note").encode("utf-16").decode("latin-1"),
    "NaN": call("add_note").replace('"milk"', "NaN"),
    "a batch in a batch": f"[[{call('add_note')}]]",
    "a text": json.dumps(call("add_note")),
    "no name": call("add_note").replace('"name": "add_note"', '"name": null'),
}


@pytest.mark.parametrize("way", WAYS_AROUND)
def test_no_message_leads_around(caller: Caller, way: str) -> None:
    answer = caller.post(WAYS_AROUND[way], caller.to_tools(READS))
    assert "wrote" not in answer.text
    assert answer.status_code < 500


# A parser that leaves a body where it is, since it does not know the type, leaves it to the SDK, which may know it (RFC 9110, 5.6.3: a byte
# 0xA0 is no white space, but JavaScript's `trim` takes it for some).
TYPES: Final = {
    "a byte 0xA0 behind": "application/json\xa0",
    "a byte 0xA0 before": "\xa0application/json",
    "a byte 0xA0 before the parameters": "application/json\xa0; charset=utf-8",
    "an unknown charset": "application/json; charset=utf-7",
    "a text": "text/plain",
    "a form": "application/x-www-form-urlencoded",
    "a type of its own": "application/vnd.mcp+json",
    "none": None,
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_body_that_nobody_looked_at_leads_nobody_around(caller: Caller, kind: str) -> None:
    answer = caller.post(call("add_note"), caller.to_tools(READS), content_type=TYPES[kind])
    assert "wrote" not in answer.text
    assert 400 <= answer.status_code < 500


def test_a_body_of_another_method_leads_nobody_around(caller: Caller) -> None:
    for method in ("DELETE", "PUT", "PATCH", "QUERY"):
        answer = caller.post(call("add_note"), caller.to_tools(READS), method=method)
        assert "wrote" not in answer.text, method
        assert 400 <= answer.status_code < 500, method
