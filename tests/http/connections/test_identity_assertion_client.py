"""The identity assertion client of MCP's SDK for Python, at a server of ours that runs. `make middleware` installs the SDK."""

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

import pytest
import trio

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ops.free_ports import free_port
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.connections.asserting import Asserting
from tests.http.federation.relying import claims_of
from tests.http.people import People
from tests.http.running_server import running
from tests.http.signing_in import UNLIMITED, unlimited

database_url, people = http.database_url, http.people
_ROOT: Final = Path(__file__).parents[3]
_SDK: Final = Path(os.environ.get("POSTERN_TEST_FRAMEWORKS") or _ROOT / ".venv" / "frameworks")
# It asks an MCP server twice, and tells what it got. The directory would issue the assertions, one for each time that the client asks.
_PROGRAM: Final = """
import asyncio
import json
import os

import httpx2
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider


class Memory:
    tokens = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return None

    async def set_client_info(self, client):
        raise NotImplementedError


async def main() -> None:
    given = json.loads(os.environ["GIVEN"])
    asked = []

    async def assertion(audience: str, resource: str) -> str:
        asked.append([audience, resource])
        return given["assertions"][len(asked) - 1]

    provider = IdentityAssertionOAuthProvider(
        server_url=given["server"],
        storage=Memory(),
        client_id=given["client_id"],
        client_secret=given["client_secret"],
        issuer=given["issuer"],
        assertion_provider=assertion,
        scope=given["scope"],
        token_endpoint_auth_method=given["method"],
    )
    statuses = []
    async with httpx2.AsyncClient(auth=provider) as client:
        for _ in range(2):
            statuses.append((await client.get(given["server"])).status_code)
    print(json.dumps({"statuses": statuses, "asked": asked}))


asyncio.run(main())
"""
pytestmark = pytest.mark.skipif(not (_SDK / "mcp").exists(), reason="make middleware installs MCP's SDK")


@dataclass
class McpServer:
    """An MCP server that takes any bearer token, and remembers what came."""

    shown: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.shown.append(self.headers.get("authorization", ""))
                self.send_response(200 if server.shown[-1].startswith("Bearer ") else 401)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def resource(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"


@pytest.fixture
def directory() -> Iterator[FakeProvider]:
    with FakeProvider() as found:
        yield found


@pytest.fixture
def server() -> Iterator[McpServer]:
    with McpServer() as found:
        yield found


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, port: int) -> AsyncIterator[Postern]:
    async with http.postern_on(database_url, tmp_path, {"POSTERN_BASE_URL": f"http://127.0.0.1:{port}"}) as opened:
        await http.with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, directory: FakeProvider) -> Asserting:
    return Asserting(postern, people, unlimited(postern), log).begin(directory)


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
async def test_the_sdk_gets_a_token_and_uses_it(scene: Asserting, server: McpServer, port: int, method: str) -> None:
    scene.api(server.resource, approved_at=None)
    issuer = f"http://127.0.0.1:{port}"
    given = {
        "server": server.resource,
        "issuer": issuer,
        "client_id": scene.shop.client_id,
        "client_secret": scene.shop.secret,
        "assertions": [scene.assertion(aud=issuer, resource=server.resource)],
        "scope": "orders:read",
        "method": method,
    }
    environment = {"PYTHONPATH": str(_SDK), "PATH": os.environ["PATH"], "GIVEN": json.dumps(given)}
    application = build_application(scene.postern, UNLIMITED)
    async with running(application, address=("127.0.0.1", port)):
        ended = await trio.run_process(
            [sys.executable, "-c", _PROGRAM], env=environment, capture_stdout=True, capture_stderr=True, check=False
        )
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    told = json.loads(ended.stdout)
    assert told == {"statuses": [200, 200], "asked": [[issuer, server.resource]]}
    first, token, again = server.shown
    assert (first, token) == ("", again)
    said = claims_of(token.removeprefix("Bearer "))
    assert (said["aud"], said["sub"], said["scope"], said["iss"]) == (server.resource, str(scene.ada.user), "orders:read", issuer)
