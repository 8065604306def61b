"""Installs the servers that we compare Postern with (`ops/bench/peers`) by npm, starts them, and fills them with people."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from ops.bench.harness import DidNotStart, Skipped, tool
from ops.bench.report import ROOT, complain
from ops.free_ports import free_port

SOURCES: Final = Path(__file__).with_name("peers")
INSTALLED: Final = ROOT / ".postern" / "bench-peers"
LONGEST_INSTALLATION: Final = 600.0
PATIENCE: Final = 120.0


def node_version() -> str:
    """Raises `Skipped` if Node.js or npm is missing."""
    node = tool("node")
    tool("npm")
    return subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def install(into: Path = INSTALLED) -> Path:
    """Installs exactly the packages of the lock, if they are not there, and puts our servers beside them. Raises `Skipped` if npm fails."""
    into.mkdir(parents=True, exist_ok=True)
    for source in filter(Path.is_file, SOURCES.iterdir()):
        shutil.copy(source, into)
    wanted = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    stamp = into / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        complain(f"installing the peers into {into} …")
        stamp.unlink(missing_ok=True)
        # npm runs no script of a package. Argon2 comes built for each platform, as optional packages.
        command = ["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, cwd=into, capture_output=True, text=True, check=True, timeout=LONGEST_INSTALLATION)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            complain(str(error.stderr))
            raise Skipped("npm could not install the peers") from error
        stamp.write_text(wanted)
    return into


@asynccontextmanager
async def running(program: str, installed: Path, place: Path, settings: Mapping[str, str]) -> AsyncIterator[tuple[trio.Process, int]]:
    """Starts the server in production mode, and waits until it has created all people and listens. Yields its process and port. The server
    creates the directory `place` and writes there what the requests need.
    """
    port, log, ready = free_port(), place / "bench.log", trio.Path(place) / "ready"
    await ready.parent.mkdir()
    with log.open("wb") as output:
        process = await trio.lowlevel.open_process(
            ["node", str(installed / program)],
            env=os.environ | settings | {"NODE_ENV": "production", "PLACE": str(place), "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=installed,
        )
    try:
        with trio.move_on_after(PATIENCE):
            while process.poll() is None and not await ready.exists():  # noqa: ASYNC110 - it is another program's file
                await trio.sleep(0.05)
        if not await ready.exists():
            raise DidNotStart(f"{program} did not start:\n{log.read_text(errors='replace')[-2000:]}")
        yield process, port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with trio.move_on_after(10, shield=True) as waiting:
            await process.wait()
        if waiting.cancelled_caught:
            process.kill()
