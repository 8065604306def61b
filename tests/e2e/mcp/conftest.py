"""The MCP servers and clients of the guide, in an installation of their own: these lines and no others, with this trial's addresses."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pytest
import trio

from ops.free_ports import free_port
from ops.guides.pages import ROOT, Page
from ops.guides.tenants import Person, Tenant, tenant
from ops.middleware.__main__ import INSTALLED
from tests.browser.conftest import browser_process, chromium
from tests.e2e.postern import until
from tests.patience import PATIENCE
from tests.tools import needs

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
_SDK: Final = INSTALLED / "node_modules" / "@modelcontextprotocol" / "sdk"
IN_NODE: Final = (needs("node"), pytest.mark.skipif(not _SDK.exists(), reason="python -m ops.middleware installs the SDK"))
GUARDS: Final = ROOT / "ops" / "middleware"
FRAMEWORKS: Final = ROOT / ".venv" / "frameworks"


@dataclass
class Workshop:
    """The files of the guide, and where its server answers."""

    tenant: Tenant
    place: Path
    port: int
    exported: Mapping[str, str]

    @property
    def resource(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

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
            process = subprocess.Popen(_command(name), cwd=self.place, env=self._environment(), stdout=log, stderr=log)
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
                _command(name), cwd=self.place, env=self._environment(**variables), stdin=PIPE, stdout=PIPE, stderr=log
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

    def _environment(self, **variables: str) -> dict[str, str]:
        inherited = {one: value for one, value in os.environ.items() if not one.startswith(("POSTERN_", "PYTHON", "COV_"))}
        path = os.pathsep.join(map(str, (GUARDS, FRAMEWORKS)))
        return {**inherited, **self.exported, "PYTHONPATH": path, "PORT": str(self.port), **variables}


def _command(name: str) -> list[str]:
    if name.endswith(".mjs"):
        return ["node", name]
    return [sys.executable, *(("-c", _BY_ANOTHER_CLOCK) if name == "client.py" else ()), name]


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


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    if not FRAMEWORKS.exists():
        pytest.skip("make .venv/ready-dev installs the SDK")
    place, port = tmp_path_factory.mktemp("mcp"), free_port()
    with tenant() as made:
        addresses = {TOOLS: f"http://127.0.0.1:{port}"}
        exported = made.follow(PAGE, addresses)
        files = dict(PAGE.files())
        files["client1.mjs"] = in_version_1(files["client.mjs"])
        for name, text in files.items():
            (place / name).write_text(made.here(text, addresses))
        if INSTALLED.exists():
            for file in GUARDS.glob("*.mjs"):
                shutil.copy(file, place)
            (place / "node_modules").symlink_to(INSTALLED / "node_modules")
        yield Workshop(made, place, port, exported)
