"""Bound tokens at the guards of MCP: the SDKs know the scheme `Bearer` alone, so the guards look at the proof before."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ops.middleware.installed import INSTALLED
from tests.ops.middleware.issuer import API, API_ID, TokenIssuer, token_issuer
from tests.ops.middleware.test_guards import FRAMEWORKS, GUARDS, Api, KeyHolder, node_folder

pytestmark = pytest.mark.slow
_SAID: Final[dict[str, Any]] = {"aud": API, "token_use": "resource", "resource_id": API_ID, "client_id": "notebook"}
_IN_PYTHON = """
import asyncio, json, sys
from postern_tokens import Tokens
from mcp_guard import Verifier, guarded, settings
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

given = json.load(sys.stdin)
tokens = Tokens(given["issuer"], audience=[given["api"]], ids=[given["id"]], origin="http://127.0.0.1:1")

async def ran(request): return JSONResponse({"sub": request.user.access_token.claims["sub"]})

app = Starlette(
    routes=[Route("/orders", ran)],
    middleware=[Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(Verifier(tokens)))],
)
app = guarded(app, tokens, {})

async def asked(headers):
    scope = {"type": "http", "method": "GET", "path": "/orders", "raw_path": b"/orders", "query_string": b"", "scheme": "http",
             "headers": [(name.encode(), value.encode()) for name, value in headers], "app": app, "server": ("127.0.0.1", 1)}
    sent = []
    async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message): sent.append(message)
    try:
        await app(scope, receive, send)
    except AttributeError:  # nobody is signed in
        return [401, ""]
    heads = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return [sent[0]["status"], heads.get("www-authenticate", "")]

async def all_of_them(): return [await asked(one) for one in given["tries"]]

print(json.dumps(asyncio.run(all_of_them())))
"""
_IN_NODE = """
import { readFileSync } from "node:fs"
import { Tokens } from "./postern-tokens.mjs"
import { guard } from "./mcp-guard.mjs"

const given = JSON.parse(readFileSync(0, "utf8"))
const tokens = new Tokens(given.issuer, { audience: [given.api], ids: [given.id], origin: "http://127.0.0.1:1" })
const guarded = guard(tokens, { resource: given.api, scopes: ["orders:read"] })
const outcomes = []
for (const pairs of given.tries) {
  const headers = {}
  for (const [name, value] of pairs) headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  const request = { method: "GET", originalUrl: "/orders?a=b", headers, rawHeaders: pairs.flat(), body: undefined }
  const told = [200, ""]
  const response = {
    status(status) { told[0] = status; return response },
    set(name, value) { if (name === "WWW-Authenticate") told[1] = value; return response },
    json() {},
  }
  await guarded(request, response, () => {})
  outcomes.push(told)
}
console.log(JSON.stringify(outcomes))
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as made:
        yield made


def command(kind: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    if kind == "python":
        if not (FRAMEWORKS / "mcp").exists():
            pytest.skip("make .venv/ready-dev installs the SDK")
        return [sys.executable, "-c", _IN_PYTHON], {"PYTHONPATH": os.pathsep.join(map(str, (GUARDS, FRAMEWORKS)))}
    if not INSTALLED.exists():
        pytest.skip("make .venv/ready-node installs the SDK, by npm")
    for name in ("postern-tokens.mjs", "mcp-guard.mjs"):
        (folder / name).write_text((GUARDS / name).read_text())
    (folder / "asking.mjs").write_text(_IN_NODE)
    return ["node", "asking.mjs"], {}


@pytest.mark.parametrize("kind", ["python", "node"])
def test_a_bound_token_passes_with_its_proof_alone(issuer: TokenIssuer, kind: str, tmp_path: Path) -> None:
    holder, other = KeyHolder(Api(1, issuer)), KeyHolder(Api(1, issuer))
    token, plain = holder.token(**_SAID), issuer.token(**_SAID)
    fine = holder.proof(token)
    bound = ("authorization", f"DPoP {token}")
    tries = [
        [bound, ("dpop", fine)],
        [("authorization", f"Bearer {plain}")],
        [bound, ("dpop", fine)],
        [("authorization", f"Bearer {token}")],
        [bound],
        [bound, ("dpop", other.proof(token))],
        [("authorization", f"DPoP {plain}"), ("dpop", holder.proof(plain))],
    ]
    folder = tmp_path if kind == "python" else node_folder()
    run, more = command(kind, folder)
    given = json.dumps({"issuer": issuer.url, "api": API, "id": API_ID, "tries": tries})
    done = subprocess.run(run, input=given, cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert [status for status, _ in outcomes] == [200, 200, 401, 401, 401, 401, 401], outcomes
    for _, challenge in (outcomes[2], *outcomes[4:]):
        assert challenge.startswith('DPoP error="invalid_dpop_proof"'), challenge
        assert "resource_metadata=" in challenge
