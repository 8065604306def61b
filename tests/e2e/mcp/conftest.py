"""The MCP servers and clients of the guide, in an installation of their own: these lines and no others, with this trial's addresses."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import psycopg
import pytest
import trio

from ops.free_ports import free_port
from ops.guides.pages import ROOT, Page
from ops.guides.tenants import Person, Tenant, tenant
from ops.middleware.clients_of_others import CLIENTS
from ops.middleware.installed import INSTALLED
from ops.stand_ins.mail_server import make_certificates
from tests.browser.conftest import browser_process, chromium
from tests.e2e.mcp.fronts import front, publishing
from tests.e2e.postern import until
from tests.patience import PATIENCE

__all__ = ["browser_process", "chromium"]  # fixtures

PAGE: Final = Page("mcp-servers", ROOT / "docs" / "guides" / "apis")
TOOLS: Final = "https://tools.example.org"
"""The address of the MCP server on the page."""
# The client of the SDK for Python goes by its own clock alone, so the test sets this clock ahead.
_BY_ANOTHER_CLOCK: Final = """
import pathlib, runpy, sys, time
real, ahead = time.time, pathlib.Path("ahead")
time.time = lambda: real() + 3600 * ahead.exists()
runpy.run_path(sys.argv[1], run_name="__main__")
"""
# `make middleware` installs the SDK for TypeScript. Without it, there are no tests of it.
IN_NODE: Final = (INSTALLED / "node_modules" / "@modelcontextprotocol" / "sdk").exists()
# FastMCP and the Inspector are no part of the ordinary run: `make middleware` installs them, and then collects their tests.
collect_ignore = [] if (CLIENTS / "installed").exists() else ["test_fastmcp.py", "test_inspector.py"]
_NAMED, _PUBLISHER = "tools.example.org", "app.client.example"
GUARDS: Final = ROOT / "ops" / "middleware"
FRAMEWORKS: Final = ROOT / ".venv" / "frameworks"
_PACKAGES: Final = {"PYTHONPATH": os.pathsep.join(map(str, (GUARDS, FRAMEWORKS)))}


@dataclass
class Workshop:
    """The files of the guide, and where its server answers."""

    tenant: Tenant
    place: Path
    port: int
    exported: Mapping[str, str]
    resource: str
    within: Sequence[str] = ()
    """The command that runs clients."""

    @property
    def ada(self) -> Person:
        return self.tenant.ada

    def token_answers(self) -> Counter[int]:
        """The statuses of the token endpoint's answers so far."""
        lines = [json.loads(line) for line in (self.tenant.server.place / "log").read_text().splitlines() if '"/auth/token"' in line]
        return Counter(line["status"] for line in lines)

    @contextmanager
    def serving(self, name: str) -> Iterator[None]:
        """A server of the guide that answers."""
        with (self.place / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(_command(name), cwd=self.place, env=self._environment(name), stdout=log, stderr=log)
        try:
            until(lambda: self._is_up() or process.poll() is not None)
            assert process.poll() is None, (self.place / f"{name}.log").read_text()[-4000:]
            yield
        finally:
            process.kill()
            process.wait()

    @asynccontextmanager
    async def program(self, name: str, **variables: str) -> AsyncIterator["Program"]:
        """A client of the guide."""
        with (self.place / f"{name}.log").open("ab") as log:
            process = await trio.lowlevel.open_process(
                [*self.within, *_command(name)],
                cwd=self.place,
                env={**self._environment(name), **variables},
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
            )
        try:
            yield Program(process, self.place / f"{name}.log")
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()

    def _is_up(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _environment(self, name: str) -> dict[str, str]:
        inherited = {one: value for one, value in os.environ.items() if not one.startswith(("POSTERN_", "PYTHON", "COV_"))}
        return {**inherited, **self.exported, "PORT": str(self.port), **({} if _is_of_fastmcp(name) else _PACKAGES)}


def _is_of_fastmcp(name: str) -> bool:
    """FastMCP has an environment of its own."""
    return name.startswith("fastmcp_")


def _command(name: str) -> list[str]:
    if name.endswith(".mjs"):
        return ["node", name]
    if _is_of_fastmcp(name):
        return [str(CLIENTS / "bin" / "python"), name]
    return [sys.executable, *(("-c", _BY_ANOTHER_CLOCK) if name.endswith("client.py") else ()), name]


@dataclass
class Program:
    process: trio.Process
    log: Path
    _heard: bytearray = field(default_factory=bytearray)

    async def line(self) -> str:
        """The next line that the program prints."""
        assert self.process.stdout is not None
        with trio.fail_after(PATIENCE):
            while b"\n" not in self._heard:
                part = await self.process.stdout.receive_some()
                assert part, f"{self.log.name} has ended:\n{self.log.read_text()[-4000:]}"
                self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    async def told(self, beginning: str) -> str:
        """The rest of the next line, which begins so."""
        line = await self.line()
        assert line.startswith(beginning), line
        return line.removeprefix(beginning).strip()

    async def ask(self, tool: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(f"{tool} {json.dumps(arguments)}\n".encode())


def in_version_1(program: str) -> str:
    """The client in version 1 of the SDK for TypeScript, which has it in other places and takes the code alone."""
    names = ("Client", "client/index"), ("StreamableHTTPClientTransport", "client/streamableHttp"), ("UnauthorizedError", "client/auth")
    imports = "\n".join(f'import {{ {name} }} from "@modelcontextprotocol/sdk/{place}.js";' for name, place in names)
    changed = re.sub(r'^import .* from "@modelcontextprotocol/client";$', imports, program, flags=re.MULTILINE)
    return changed.replace("finishAuth(answer)", 'finishAuth(answer.get("code"))')


def registering(program: str) -> str:
    """The client that registers itself, as the SDK does where nobody says what it is."""
    told = "client_metadata_url=CLIENT_ID if by_document else None"
    assert told in program
    return program.replace(told, "client_metadata_url=None").replace("Kept(None if by_document else known)", "Kept(None)")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """Here the client is registered as a service, and the server is on the developer's own machine."""
    if not FRAMEWORKS.exists():
        pytest.skip("make .venv/ready-dev installs the SDK")
    place, port = tmp_path_factory.mktemp("mcp"), free_port()
    with tenant() as made:
        exported = _follow(made, place, f"http://127.0.0.1:{port}")
        yield Workshop(made, place, port, exported, f"http://127.0.0.1:{port}/mcp")


def _follow(made: Tenant, place: Path, at: str) -> Mapping[str, str]:
    """Follows the guide, with the server at this address."""
    exported = made.follow(PAGE, {TOOLS: at})
    files = dict(PAGE.files())
    files["client1.mjs"] = in_version_1(files["client.mjs"])
    # At an address of VS Code, which the application for MCP clients without a document admits.
    files |= {f"vscode_{name}": files[name].replace("/callback", "/") for name in ("client.py", "client.mjs")}
    # As clients that know nothing of documents, and are given no client id.
    files["open_client.py"] = registering(files["client.py"])
    for name, text in files.items():
        (place / name).write_text(made.here(text, {TOOLS: at}))
    if INSTALLED.exists():
        for file in GUARDS.glob("*.mjs"):
            shutil.copy(file, place)
        (place / "node_modules").symlink_to(INSTALLED / "node_modules")
    return exported


_HOSTS: Final = 'mount --bind "$0" /etc/hosts; exec "$@"'


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """Here the client publishes a document about itself, and the server has a name of its own. Both names lead to this machine, for the
    processes that are started here alone.
    """
    if not FRAMEWORKS.exists():
        pytest.skip("make .venv/ready-dev installs the SDK")
    place, port = tmp_path_factory.mktemp("mcp"), free_port()
    hosts = place / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {_NAMED} {_PUBLISHER}\n")
    within = ("unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", _HOSTS, str(hosts))
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    (named := place / "named").mkdir()
    (publisher := place / "publisher").mkdir()
    of_server, of_client = make_certificates(named, host=_NAMED), make_certificates(publisher, host=_PUBLISHER)
    document: dict[str, Any] = {
        "client_name": "Assistant",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
    with ExitStack() as opened:
        at = f"https://{_NAMED}:{opened.enter_context(front(of_server, port))}"
        host = f"{_PUBLISHER}:{opened.enter_context(publishing(of_client, lambda: document))}"
        document["client_id"] = f"https://{host}/oauth/client.json"
        made = opened.enter_context(tenant(within, POSTERN_OUTBOUND_CA_FILE=str(of_client.authority), POSTERN_OPEN_REGISTRATION="on"))
        exported = {
            **_follow(made, place, at),
            "ASSISTANT_ID": document["client_id"],
            "SSL_CERT_FILE": str(of_server.authority),
            "NODE_EXTRA_CA_CERTS": str(of_server.authority),
        }
        # The organization and its API let clients of this host in, and programs that register themselves. An owner of the platform has
        # approved the address of the server.
        rules = {"metadata_clients": "named", "metadata_hosts": [host], "registered_clients": "on"}
        acme = "/api/organizations/acme"
        made.ada.ask("PATCH", f"{acme}/sign-in-rules", rules)
        made.ada.ask("PATCH", f"{acme}/resource-servers/{exported['RESOURCE_ID']}", rules)
        with psycopg.connect(made.server.database_url) as connection:
            connection.execute("update resource_servers set approved_at = now()")
        yield Workshop(made, place, port, exported, f"{at}/mcp", within)
