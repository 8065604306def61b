"""The receiver of the guide does what the guide says: the test runs the text that stands there."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.http.tenancy.hooks.scene import HookScene
from tests.patience import PATIENCE
from tests.places import ROOT

GUIDE = ROOT / "docs" / "guides" / "apis" / "hooks.md"


def program() -> str:
    (text,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


@asynccontextmanager
async def running(secret: str, place: Path, blocked: str = "") -> AsyncIterator[str]:
    """The program of the guide; its address."""
    (place / "receiver.py").write_text(program(), encoding="utf-8")
    environment = {**os.environ, "HOOK_SECRET": secret, "BLOCKED": blocked, "PORT": "0"}
    process = await trio.lowlevel.open_process(
        [sys.executable, str(place / "receiver.py")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        assert process.stdout is not None
        said = b""
        with trio.fail_after(PATIENCE):
            while b"\n" not in said:
                said += await process.stdout.receive_some()
        yield f"http://127.0.0.1:{int(said.split()[-1])}/sign-in"
    finally:
        process.kill()
        await process.wait()


async def tried(scene: HookScene, address: str) -> dict[str, Any]:
    shown = await scene.shown()
    (await scene.put(address=address, digest=shown["digest"])).ok()
    found: dict[str, Any] = (await scene.ask("POST", "/try")).ok()
    return found


def test_the_receiver_has_thirty_lines_and_its_imports() -> None:
    lines = [line for line in program().splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(lines) <= 30


async def test_the_receiver_of_the_guide_answers_what_is_signed(scene: HookScene, tmp_path: Path) -> None:
    secret = (await scene.made())["secret"]
    async with running(secret, tmp_path) as address:
        assert (await tried(scene, address))["outcome"] == "second_factor", "a new device, and a password alone"
    async with running(secret, tmp_path, blocked="somebody@example.com") as address:
        said = await tried(scene, address)
        assert (said["outcome"], said["why"]) == ("no", "account")
    async with running("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", tmp_path) as address:
        said = await tried(scene, address)
        assert (said["outcome"], said["why"]) == ("silent", "status")
