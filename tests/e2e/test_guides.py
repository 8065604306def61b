"""The guides run as they are written: their shell blocks, in one shell, against the real server."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy, environment, free_port
from tests.places import ROOT

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_SIGN_IN = ROOT / "docs" / "guides" / "first-sign-in.md"


def blocks(guide: Path) -> list[str]:
    return _BLOCK.findall(guide.read_text())


@pytest.mark.skipif(shutil.which("oathtool") is None or shutil.which("jq") is None, reason="oathtool or jq is missing")
def test_a_first_sign_in_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    server = Postern(copy(installation.data_dir, e2e_directory / "guide"), settings={"POSTERN_BIND": f"127.0.0.1:{port}"})
    try:
        server.start()
        # The first command that fails ends it; the last number told is its block's.
        told = "\n".join(f"echo --- block {number} >&2\n{block}" for number, block in enumerate(blocks(FIRST_SIGN_IN), 1))
        done = subprocess.run(
            ["bash", "-euc", told],
            env=environment(server.data_dir, {"POSTERN": address}),
            cwd=e2e_directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.stop() == 0
    finally:
        server.close()
    for shown in ("access_token", "backup_codes", "device_trust_token", '"token_type": "Bearer"', '"is_current": true'):
        assert shown in done.stdout
    log = server.err.read_text()
    for secret in ("three wet matches", "nine dry candles", *re.findall(r"[A-Z2-9]{4}-[A-Z2-9]{4}", done.stdout)):
        assert secret not in log
