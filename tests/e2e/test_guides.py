"""The guides run as they are written: their shell blocks, in one shell, against the real server."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoints.http.application import ROUTES
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy, environment, free_port
from tests.places import ROOT

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = ROOT / "docs" / "guides"
FIRST_SIGN_IN = GUIDES / "first-sign-in.md"
FIRST_ORGANIZATION = GUIDES / "first-organization.md"
SERVICE_INTERFACE = GUIDES / "service-interface.md"


def blocks(guide: Path) -> list[str]:
    return _BLOCK.findall(guide.read_text())


def follow(guide: Path, installation: Installation, directory: Path) -> tuple[str, str]:
    """What the guide's blocks show, and what the server writes into its log meanwhile."""
    port = free_port()
    server = Postern(copy(installation.data_dir, directory / guide.stem), settings={"POSTERN_BIND": f"127.0.0.1:{port}"})
    try:
        server.start()
        # The first command that fails ends it; the last number told is its block's.
        told = "\n".join(f"echo --- block {number} >&2\n{block}" for number, block in enumerate(blocks(guide), 1))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", told],
            env=environment(server.data_dir, {"POSTERN": f"http://127.0.0.1:{port}", "PATH": path}),
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.stop() == 0
    finally:
        server.close()
    return done.stdout, server.err.read_text()


@pytest.mark.skipif(shutil.which("oathtool") is None or shutil.which("jq") is None, reason="oathtool or jq is missing")
def test_a_first_sign_in_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(FIRST_SIGN_IN, installation, e2e_directory)
    for part in ("access_token", "backup_codes", "device_trust_token", '"token_type": "Bearer"', '"is_current": true'):
        assert part in shown
    for secret in ("three wet matches", "nine dry candles", *re.findall(r"[A-Z2-9]{4}-[A-Z2-9]{4}", shown)):
        assert secret not in log


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing")
def test_a_first_organization_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(FIRST_ORGANIZATION, installation, e2e_directory)
    for part in ('"status": "pending"', '"role": "auditor"', "301 http://127.0.0.1", '"new_role": "admin"', '"action": "user.joined"'):
        assert part in shown
    assert re.search(r"ok +acme-\d+ +\d+ entries, head \d+:\w+", shown)
    for secret in ("five tall lighthouses", "three wet matches", "nine dry candles", "@example.org"):
        assert secret not in log


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing")
def test_the_service_interface_answers_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(SERVICE_INTERFACE, installation, e2e_directory)
    for part in ('"default_plan": "Free"', '"name": "Acme Shop"', '"plan": "Pro"', '"status": "cancelled"', '"total_users": 2'):
        assert part in shown
    for secret in ("three wet matches", "nine dry candles", "@example.org"):
        assert secret not in log
    assert not re.search(r"sk_[a-z0-9]{6}_", shown + log)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    answered = {(line["method"], line["route"]) for line in lines if line["event"] == "request" and line["status"] < 300}
    stated = {(one.method, one.path) for one in ROUTES if {"service-interface", "api-keys"} & set(one.tags)}
    assert len(stated) == 17
    assert stated <= answered
