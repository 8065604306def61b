"""Each client against a server that answers by a script: what is tried again, which errors come, and what is sent."""

import json
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.e2e.clients.conftest import VERSION, MadeClients
from tests.e2e.clients.scripted import KeptRequest, ScriptedAnswer, scripted
from tests.tools import needs

SOON: Final = (("Retry-After", "0"),)


def refusal(status: int, code: str, *headers: tuple[str, str]) -> ScriptedAnswer:
    body = {"error": "No", "error_code": code, "timestamp": "2026-01-01T00:00:00Z"}
    return ScriptedAnswer(status, json.dumps(body), headers)


def entries(name: str, *ids: str, **more: object) -> ScriptedAnswer:
    return ScriptedAnswer(200, json.dumps({name: [{"id": one} for one in ids], **more}))


@dataclass(frozen=True)
class Script:
    answers: Sequence[ScriptedAnswer]
    expected: Mapping[str, Any]
    sent: Sequence[str]
    """The method and the target of each request."""
    call: str = "get_metrics"
    path: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    """The body, the query or the content."""
    options: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    """Of the first request."""
    body: str | None = None
    wait: float = 0
    """The seconds between the first request and the second, at least."""


GET: Final = "GET /metrics"
FINE: Final = ScriptedAnswer(200, "fine")
TEAM: Final = {"body": {"slug": "support", "name": "Support"}}
DELETED: Final = "DELETE /api/organizations/acme/teams/support"
BUSY: Final = refusal(503, "SERVICE_UNAVAILABLE", *SOON)
SCRIPTS: Final[Mapping[str, Script]] = {
    "one try is enough": Script([FINE], {"answer": "fine"}, [GET]),
    "a limit is waited for": Script([refusal(429, "RATE_LIMIT_EXCEEDED", *SOON), FINE], {"answer": "fine"}, [GET] * 2),
    "a wait takes its time": Script(
        [refusal(503, "SERVICE_UNAVAILABLE", ("Retry-After", "1")), FINE], {"answer": "fine"}, [GET] * 2, wait=1
    ),
    "there are two further tries": Script([BUSY] * 4, {"error": "ServiceUnavailable", "status": 503, "retry_after": 0}, [GET] * 3),
    "there are as many tries as you say": Script([BUSY] * 4, {"error": "ServiceUnavailable"}, [GET], options={"retries": 0}),
    "a long wait is left to you": Script(
        [refusal(429, "RATE_LIMIT_EXCEEDED", ("Retry-After", "60"))], {"error": "RateLimitExceeded", "retry_after": 60}, [GET]
    ),
    "without a time there is no further try": Script([refusal(503, "SERVICE_UNAVAILABLE")], {"error": "ServiceUnavailable"}, [GET]),
    "another error is not tried again": Script([refusal(500, "INTERNAL_SERVER_ERROR", *SOON)], {"error": "InternalServerError"}, [GET]),
    "what may be made twice is not tried again": Script(
        [refusal(429, "RATE_LIMIT_EXCEEDED", *SOON)],
        {"error": "RateLimitExceeded"},
        ["POST /api/organizations/acme/teams"],
        call="create_team",
        path=["acme"],
        more=TEAM,
    ),
    "a change is not tried again": Script(
        [BUSY],
        {"error": "ServiceUnavailable"},
        ["PATCH /api/organizations/acme/teams/support"],
        call="change_team",
        path=["acme", "support"],
        more={"body": {"role": None}},
        body='{"role":null}',
    ),
    "a removal is tried again": Script(
        [BUSY, ScriptedAnswer(204)], {"answer": None}, [DELETED] * 2, call="delete_team", path=["acme", "support"]
    ),
    "an error has a class by its code": Script(
        [refusal(404, "NOT_FOUND", ("X-Request-Id", "abc"))],
        {"error": "NotFound", "is_ours": True, "status": 404, "code": "NOT_FOUND", "request_id": "abc"},
        [GET],
    ),
    "an unknown code is an error, too": Script([refusal(400, "toString")], {"error": "ApiError", "code": "toString"}, [GET]),
    "another server's error has no code": Script([ScriptedAnswer(502, "<h1>Bad gateway</h1>")], {"error": "ApiError", "code": ""}, [GET]),
    "an error may be no object": Script([ScriptedAnswer(400, "[1]")], {"error": "ApiError", "status": 400}, [GET]),
    "another server's page is no answer": Script(
        [ScriptedAnswer(200, "<h1>Sign in</h1>")], {"error": "UnexpectedAnswer", "is_ours": True}, ["GET /api/user"], call="get_profile"
    ),
    "a connection may break off": Script([ScriptedAnswer(200, cut=True)], {"error": "NotReached", "is_ours": True}, [GET]),
    "an answer may never come": Script(
        [ScriptedAnswer(200, never=True)], {"error": "TimedOut", "is_ours": True}, [GET], options={"timeout": 1}
    ),
    "a part of a path stays one": Script(
        [ScriptedAnswer(204)],
        {"answer": None},
        ["DELETE /api/organizations/a%2Fb/teams/c%3Fd%23e%20%25"],
        call="delete_team",
        path=["a/b", "c?d#e %"],
    ),
    "a token goes where it is taken": Script(
        [ScriptedAnswer(204)],
        {"answer": None},
        [DELETED],
        call="delete_team",
        path=["acme", "support"],
        options={"token": "pto_x", "api_key": "key", "client": ["a", "b"]},
        headers={"authorization": "Bearer pto_x", "x-api-key": None},
    ),
    "nobody's call carries no credentials": Script(
        [ScriptedAnswer(200, '{"keys": []}')],
        {"answer": "object"},
        ["GET /.well-known/jwks.json"],
        call="get_jwks",
        options={"token": "pto_x", "api_key": "key", "client": ["a", "b"]},
        headers={"authorization": None, "x-api-key": None, "cookie": None},
    ),
    "a service sends its key": Script(
        [ScriptedAnswer(204)],
        {"answer": None},
        ["DELETE /api/service/users/7"],
        call="delete_service_user",
        path=["7"],
        options={"api_key": "key", "token": "pto_x"},
        headers={"x-api-key": "key", "authorization": None},
    ),
    "a client authenticates, and sends a form": Script(
        [ScriptedAnswer(200, '{"active": false}')],
        {"answer": "object"},
        ["POST /oauth/introspect"],
        call="introspect_token",
        more={"body": {"token": "a&b=c", "client_id": None}},
        options={"client": ["shop:1", "s ä"]},
        headers={
            "authorization": f"Basic {b64encode(b'shop%3A1:s+%C3%A4').decode()}",
            "content-type": "application/x-www-form-urlencoded",
        },
        body="token=a%26b%3Dc",
    ),
    "bytes go as they are": Script(
        [ScriptedAnswer(200, '{"status": "success"}')],
        {"answer": "object"},
        ["POST /webhooks/billing"],
        call="receive_billing_event",
        more={"content": '{ "id": 1 }', "query": {"billing_signature": "t=1"}},
        headers={"billing-signature": "t=1", "content-type": "application/json"},
        body='{ "id": 1 }',
    ),
    "a bound token comes with a proof": Script(
        [refusal(404, "NOT_FOUND")],
        {"error": "NotFound"},
        ["GET /api/user"],
        call="get_profile",
        options={"token": "t", "prove": True},
        headers={"authorization": "DPoP t", "dpop": "GET /api/user t"},
    ),
    "what takes no bound token gets none": Script(
        [refusal(404, "NOT_FOUND")],
        {"error": "NotFound"},
        ["GET /api/organizations/acme/teams"],
        call="list_teams",
        path=["acme"],
        options={"token": "t", "prove": True},
        headers={"authorization": "Bearer t", "dpop": None},
    ),
    "a request for tokens comes with a proof": Script(
        [refusal(404, "NOT_FOUND")],
        {"error": "NotFound"},
        ["POST /oauth/token"],
        call="exchange_for_oauth_tokens",
        more={"body": {"grant_type": "client_credentials"}},
        options={"client": ["id", "secret"], "prove": True},
        headers={"authorization": "Basic aWQ6c2VjcmV0", "dpop": "POST /oauth/token"},
    ),
    "a list goes on after its last entry": Script(
        [entries("sign_ins", "1", "2", next="b"), entries("sign_ins", next="c"), entries("sign_ins", "3", next=None)],
        {"items": ["1", "2", "3"]},
        [
            "GET /api/organizations/acme/sign-ins?success=false&limit=2",
            "GET /api/organizations/acme/sign-ins?success=false&after=b&limit=2",
            "GET /api/organizations/acme/sign-ins?success=false&after=c&limit=2",
        ],
        call="iterate_sign_ins",
        path=["acme"],
        more={"query": {"success": False, "limit": 2}},
    ),
    "a list has pages": Script(
        [entries("logs", "1", "2"), entries("logs")],
        {"items": ["1", "2"]},
        [f"GET /api/organizations/acme/audit-log?page={page}&limit=2&action=a+b" for page in (1, 2)],
        call="iterate_audit_log",
        path=["acme"],
        more={"query": {"action": "a b", "limit": 2}},
    ),
    "a list counts its entries": Script(
        [entries("users", "1", "2"), entries("users", "3")],
        {"items": ["1", "2", "3"]},
        ["GET /api/service/users?limit=2&offset=0", "GET /api/service/users?limit=2&offset=2"],
        call="iterate_service_users",
        more={"query": {"limit": 2}},
    ),
    "a page that fails ends the list": Script(
        [entries("users", *map(str, range(100))), refusal(403, "FORBIDDEN")],
        {"error": "Forbidden"},
        ["GET /api/service/users?limit=100&offset=0", "GET /api/service/users?limit=100&offset=100"],
        call="iterate_service_users",
    ),
}
COMMANDS: Final = {
    "python": (sys.executable, "calling.py", "blocking"),
    "asyncio": (sys.executable, "calling.py", "asyncio"),
    "trio": (sys.executable, "calling.py", "trio"),
    "typescript": ("node", "calling.mjs"),
}
Told = Mapping[str, tuple[Mapping[str, Any], Sequence[KeptRequest]]]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=needs("node") if name == "typescript" else ()) for name in COMMANDS])
def told(request: pytest.FixtureRequest, clients: MadeClients) -> Told:
    """What came of each script, and the requests that the client sent."""
    with ExitStack() as opened:
        servers = {name: opened.enter_context(scripted(script.answers)) for name, script in SCRIPTS.items()}
        calls = [
            {"url": servers[name].url, "call": script.call, "path": script.path, "options": script.options, **script.more}
            for name, script in SCRIPTS.items()
        ]
        outcomes = json.loads(clients.run(*COMMANDS[request.param], given=json.dumps(calls)))
        return {name: (outcome, servers[name].requests) for name, outcome in zip(SCRIPTS, outcomes, strict=True)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_call_goes_by_its_script(told: Told, name: str) -> None:
    script, (outcome, requests) = SCRIPTS[name], told[name]
    assert {key: outcome.get(key) for key in script.expected} == dict(script.expected), outcome
    assert [f"{one.method} {_sorted(one.path)}" for one in requests] == [_sorted(one) for one in script.sent]
    assert {key: requests[0].headers.get(key) for key in script.headers} == dict(script.headers)
    assert requests[0].headers["user-agent"].endswith(f"/{VERSION}")
    assert not script.wait or requests[1].at - requests[0].at >= script.wait
    if script.body is not None:
        assert requests[0].body.replace('": ', '":') == script.body.replace('": ', '":')


def _sorted(target: str) -> str:
    path, _, query = target.partition("?")
    return f"{path}?{'&'.join(sorted(query.split('&')))}"


ELSEWHERE: Final = ("", ".", "..")


@pytest.mark.parametrize("language", [pytest.param(name, marks=needs("node") if name == "typescript" else ()) for name in COMMANDS])
def test_no_call_leaves_its_path_and_no_redirect_is_followed(clients: MadeClients, language: str) -> None:
    with scripted([FINE]) as other, scripted([ScriptedAnswer(302, headers=(("Location", f"{other.url}/metrics"),))]) as server:
        common = {"url": server.url, "options": {"token": "pto_x"}}
        calls: list[Mapping[str, Any]] = [{**common, "call": "delete_team", "path": ["acme", part]} for part in ELSEWHERE]
        calls.append({**common, "call": "get_metrics", "path": []})
        *elsewhere, redirected = json.loads(clients.run(*COMMANDS[language], given=json.dumps(calls)))
        assert [one["error"] for one in elsewhere] == ["TypeError" if language == "typescript" else "ValueError"] * len(ELSEWHERE)
        assert redirected["error"] in {"ApiError", "NotReached"}
        assert ([one.path for one in server.requests], other.requests) == (["/metrics"], [])
