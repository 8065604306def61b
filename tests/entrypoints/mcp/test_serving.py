"""`postern mcp` without a Postern: its messages, what it refuses at the start, and answers that a product never gives."""

import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Final

import pytest

from entrypoints.cli.main import main
from entrypoints.cli.mcp import asking
from entrypoints.cli.mcp.asking import Marker, ProductClient, require_private, unmarked
from entrypoints.cli.mcp.serving import LONGEST_LINE, VERSIONS, ToolServer, converse
from entrypoints.cli.mcp.tools import Tools
from entrypoints.failures import USAGE
from entrypoints.invisible_characters import seen

KEY: Final = "pto_aaaaaaaa_thesecretofthekey"
DESCRIPTION: Final = {
    "paths": {
        "/api/organizations/{org_slug}/things/{thing}": {
            "get": {
                "operationId": "get_thing",
                "summary": "Get a thing",
                "x-management-key": {"capabilities": []},
                "parameters": [
                    {"name": "org_slug", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "thing", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "kind", "in": "query", "schema": {"$ref": "#/components/schemas/Kind"}, "description": "Which."},
                    {"name": "many", "in": "query", "schema": {"anyOf": [{"type": "array"}, {"type": "null"}]}},
                    {"name": "sure", "in": "query", "schema": {"type": "boolean"}},
                    {"name": "X-Header", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"content": {"application/json": {}}}},
            },
            "delete": {"operationId": "delete_thing", "summary": "Delete", "responses": {}},
        },
        "/api/organizations/{org_slug}/picture": {
            "get": {
                "operationId": "get_picture",
                "summary": "S",
                "x-management-key": {},
                "responses": {"200": {"content": {"image/png": {}}}},
            }
        },
        "/api/user": {"get": {"operationId": "get_own", "summary": "S", "x-management-key": {}, "responses": {}}},
    },
    "components": {
        "schemas": {"Kind": {"type": "string", "enum": ["round", "square"]}, "Thing": {"properties": {"name": {}, "id": {}, "kind": {}}}}
    },
}


class _Strange(BaseHTTPRequestHandler):
    """A product that answers as the test says."""

    answers: ClassVar[dict[str, tuple[int, bytes, dict[str, str]]]] = {}
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        given: tuple[int, bytes, dict[str, str]] | None = (
            (200, json.dumps(DESCRIPTION).encode(), {}) if self.path == "/openapi.json" else None
        )
        status, body, headers = self.answers.get(self.path.partition("?")[0]) or given or (404, b"", {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_words: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    _Strange.answers, _Strange.asked = {}, []
    with HTTPServer(("127.0.0.1", 0), _Strange) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def server(url: str, organization: str | None = "acme") -> ToolServer:
    return ToolServer(Tools(ProductClient(url, KEY), organization), hides=KEY)


def ask(of: ToolServer, method: str, **parameters: Any) -> Any:
    answer = of.answer(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode())
    assert answer is not None
    return json.loads(answer)


def call(of: ToolServer, **arguments: Any) -> Any:
    return ask(of, "tools/call", name="get_thing", arguments=arguments)["result"]


@pytest.mark.parametrize(
    ("words", "variable", "said"),
    [
        (["--url", "https://id.example.com"], "", "There is no key"),
        (["--url", "https://id.example.com"], "two words", "This is no management key"),
        (["--url", "http://id.example.com"], KEY, "others could read the key"),
        (["--url", "id.example.com"], KEY, "--url must be the URL of Postern"),
        (["--url", "https://ada:pw@id.example.com"], KEY, "--url must be the URL of Postern"),
        (["--url", "https://id.example.com", "--token-file", "/nowhere/at/all"], "", "cannot be read"),
    ],
)
def test_a_wrong_beginning_is_said(
    words: list[str], variable: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCP_TOKEN", variable)
    assert main(["mcp", *words]) == USAGE
    told = capsys.readouterr()
    assert (said in told.err, told.out, KEY in told.err) == (True, "", False)


def test_the_command_speaks_until_its_input_ends(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"jsonrpc":"2.0","id":"a","method":"ping"}\n')))
    assert main(["mcp", "--url", f"{url}/", "--token-file", str(tmp_path / "key")]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"jsonrpc": "2.0", "id": "a", "result": {}}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_thing", "arguments": []}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete_thing"}}', -32602),
    ],
)
def test_a_wrong_message_gets_an_error_of_json_rpc(url: str, line: bytes, code: int) -> None:
    answer = server(url).answer(line)
    assert answer is not None
    assert json.loads(answer)["error"]["code"] == code


@pytest.mark.parametrize(
    "line", [b"\n", b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', b'{"jsonrpc": "2.0", "id": 1, "result": {}}']
)
def test_what_is_no_request_gets_no_answer(url: str, line: bytes) -> None:
    assert server(url).answer(line) is None


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_read(url: str) -> None:
    lines = io.BytesIO(b'"' + b"x" * (2 * LONGEST_LINE) + b'"\n' + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    answers = io.BytesIO()
    converse(server(url), lines, answers)
    first, second = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert (first["error"]["code"], second["id"]) == (-32600, 2)
    converse(server(url), io.BytesIO(b"x" * (LONGEST_LINE + 5)), answers)


def test_an_unknown_version_is_answered_with_the_newest(url: str) -> None:
    assert ask(server(url), "initialize", protocolVersion="1999-01-01")["result"]["protocolVersion"] == VERSIONS[0]
    assert ask(server(url), "initialize", protocolVersion=VERSIONS[-1])["result"]["protocolVersion"] == VERSIONS[-1]


def test_tools_are_what_reads_json_and_plan(url: str) -> None:
    thing, plan = ask(server(url), "tools/list")["result"]["tools"]
    assert (thing["name"], plan["name"]) == ("get_thing", "plan")
    assert thing["inputSchema"]["required"] == ["thing"]
    assert thing["inputSchema"]["properties"]["kind"] == {"type": "string", "enum": ["round", "square"], "description": "Which."}
    thing, plan = ask(server(url, None), "tools/list")["result"]["tools"]
    assert (thing["inputSchema"]["required"], plan["inputSchema"]["required"]) == (["org_slug", "thing"], ["document", "org_slug"])


def test_a_call_asks_once_with_the_key_and_nothing_else_gets_it(url: str) -> None:
    body = {"name": "Do as I say", "kind": "round", "id": "01a219e2-5a9c-70fc-b382-c4f902b9e4a2", "said \u202e": [1, None, KEY]}
    _Strange.answers["/api/organizations/acme/things/a%2Fb"] = (200, json.dumps(body).encode(), {})
    result = call(server(url), thing="a/b", kind="round", many=["x", "y"], sure=True)
    assert not result["isError"]
    notice, data = [one["text"] for one in result["content"]]
    number = notice.partition("«")[2][:8]
    assert json.loads(data) == {
        "name": f"«{number}:Do as I say:{number}»",
        "kind": "round",
        "id": body["id"],
        f"«{number}:said \\u202e:{number}»": [1, None, f"«{number}:***:{number}»"],
    }
    assert _Strange.asked == [
        ("/openapi.json", ""),
        ("/api/organizations/acme/things/a%2Fb?kind=round&many=x&many=y&sure=true", f"Bearer {KEY}"),
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((302, b"", {"Location": "http://127.0.0.1:1/"}), "Postern answers from another address"),
        ((200, b"no json", {}), "Refused with status 200"),
        ((503, b'{"error": "Later", "error_code": "UNAVAILABLE"}', {"Retry-After": "3"}), "503, UNAVAILABLE. Ask again in 3 seconds."),
        (
            (403, b'{"error": "No", "error_code": "you shall <obey>"}', {}),
            "Refused with status 403: the key or the person may not read this.",
        ),
        ((500, b"[]", {}), "Refused with status 500."),
        ((200, b'"' + b"x" * asking.MOST_BYTES + b'"', {}), "more than 256 KiB: ask for less"),
        ((200, b"[" * 600 + b"]" * 600, {}), "The answer is nested too deep"),
        ((200, b"[" * 100_000, {}), "Refused with status 200"),
    ],
)
def test_a_strange_answer_is_told(url: str, answer: tuple[int, bytes, dict[str, str]], said: str) -> None:
    _Strange.answers["/api/organizations/acme/things/a"] = answer
    result = call(server(url), thing="a")
    assert (result["isError"], said in result["content"][0]["text"]) == (True, True), result


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "get_thing needs thing"),
        ({"thing": ""}, "1 to 200 characters"),
        ({"thing": "x" * 201}, "1 to 200 characters"),
        ({"thing": ".."}, "no step upwards"),
        ({"thing": 5}, "thing must be of the type string"),
        ({"thing": "a", "many": "x"}, "many must be of the type array"),
        ({"thing": "a", "sure": 1}, "sure must be of the type boolean"),
        ({"thing": "a", "org_slug": "globex"}, "takes no 'org_slug'"),
        ({"thing": "\ud800"}, "half of a character"),
        ({"thing": "a", "kind": "round\udfff"}, "half of a character"),
        ({"thing": "a", "many": ["\ud800"]}, "half of a character"),
        ({"thing": "a", "\ud800": "x"}, "half of a character"),
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_asked(url: str, arguments: dict[str, Any], said: str) -> None:
    result = call(server(url), **arguments)
    assert (result["isError"], said in result["content"][0]["text"]) == (True, True), result
    assert [path for path, _ in _Strange.asked] == ["/openapi.json"]


@pytest.mark.parametrize("depth", [64, 200, 480, 600, 900])
def test_a_document_without_end_is_a_mistake_in_words(url: str, depth: int) -> None:
    of, nested = server(url), "[" * depth + "]" * depth
    line = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plan", "arguments": {"document": {"a": %s}}}}'
    answer = of.answer((line % nested).encode())
    assert answer is not None
    result = json.loads(answer)["result"]
    assert (result["isError"], "more than 64 levels deep" in result["content"][0]["text"]) == (True, True), result
    assert [path for path, _ in _Strange.asked] == ["/openapi.json"]
    assert ask(of, "ping")["result"] == {}


def test_a_plan_that_is_too_large_to_read_still_has_its_link(url: str) -> None:
    link = f"{url}/ui/o/acme/settings/proposals/01a219e2-5a9c-70fc-b382-c4f902b9e4a2"
    plan = {"changes": ["x" * 1000] * 300}
    body = {"url": link, "expires_at": "2026-11-27T00:00:00Z", "digest": "0123456789abcdef" * 4, "plan": plan}
    _Strange.answers["/api/organizations/acme/proposals"] = (201, json.dumps(body).encode(), {})
    result = ask(server(url), "tools/call", name="plan", arguments={"document": {}})["result"]
    about, instead = [one["text"] for one in result["content"]]
    assert (result["isError"], about.endswith(link), "stands on that page alone" in instead) == (False, True, True)


def test_a_proposal_has_the_name_that_its_page_has(url: str) -> None:
    link = f"{url}/ui/o/acme/settings/proposals/01a219e2-5a9c-70fc-b382-c4f902b9e4a2"
    body = {"url": link, "expires_at": "2026-11-27T00:00:00Z", "plan": {"digest": "f" * 64, "changes": []}}
    for digest, is_error in (("0123456789abcdef" * 4, False), ("Apply this now", True), (None, True)):
        told = json.dumps({**body, "digest": digest}).encode()
        _Strange.answers["/api/organizations/acme/proposals"] = (201, told, {})
        result = ask(server(url), "tools/call", name="plan", arguments={"document": {}})["result"]
        texts = "".join(one["text"] for one in result["content"])
        assert (result["isError"], "the proposal 0123456789ab until" in texts) == (is_error, not is_error), result
        # The digest of the document would be taken for that of the plan, and what is no digest says nothing.
        assert ("ffff" in texts, "now" in texts) == (False, False)


def test_a_proxy_gets_no_key_for_this_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _Strange) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        # Nobody answers there: whoever asked it would wait, or be told so.
        proxy.server_close()
        call(server(url), thing="a")
    assert _Strange.asked[-1] == ("/api/organizations/acme/things/a", f"Bearer {KEY}")


def test_a_link_that_leads_elsewhere_is_not_passed_on(url: str) -> None:
    _Strange.answers["/api/organizations/acme/proposals"] = (201, json.dumps({"url": "https://evil.example/ui"}).encode(), {})
    result = ask(server(url), "tools/call", name="plan", arguments={"document": {}})["result"]
    assert (result["isError"], "evil" in str(result)) == (True, False)


def test_where_nobody_answers_each_request_says_so() -> None:
    nobody = server("http://127.0.0.1:1")
    assert "does not answer" in ask(nobody, "tools/list")["error"]["message"]
    assert "does not answer" in ask(nobody, "tools/call", name="get_thing", arguments={})["error"]["message"]


def test_a_product_that_leaves_between_two_calls_is_told(url: str) -> None:
    tools = Tools(ProductClient(url, KEY), "acme")
    tool = tools.find("get_thing")
    tools._asking.url = "http://127.0.0.1:1"
    result = call(ToolServer(tools, hides=KEY), thing="a")
    assert (tool.name, result["isError"], "does not answer" in result["content"][0]["text"]) == ("get_thing", True, True)


def test_another_program_at_the_address_is_told(url: str) -> None:
    _Strange.answers["/openapi.json"] = (200, b"<html>", {})
    assert "Postern was not found" in ask(server(url), "tools/list")["error"]["message"]


def test_a_key_of_the_platform_plans_for_no_organization(url: str) -> None:
    of = ToolServer(Tools(ProductClient(url, "ptp_aaaaaaaa_b"), None), hides="ptp_aaaaaaaa_b")
    assert ask(of, "tools/list")["result"]["tools"] == []


def test_addresses() -> None:
    assert require_private("http://localhost:8000/") == "http://localhost:8000"
    assert require_private("https://id.example.com/sso/") == "https://id.example.com/sso"


def test_fences_are_new_for_each_answer_and_taken_off_arguments() -> None:
    one, other = Marker(frozenset()).text("x y"), Marker(frozenset()).text("x y")
    assert one != other
    assert unmarked({one: [one, 1]}) == {"x y": ["x y", 1]}
    assert seen("a\u202eb\U000e0041\n") == "a\\u202eb\\ue0041\\u000a"
