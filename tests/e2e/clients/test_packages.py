"""The clients' packages: installed by pip and npm where nothing else of ours is, and the same bytes from two builds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.clients.packages import pack
from tests.e2e.clients.conftest import VERSION
from tests.e2e.clients.scripted import ScriptedAnswer, scripted
from tests.tools import needs

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
IN_PYTHON = "import sys, postern_client; print(postern_client.Postern(sys.argv[1]).get_metrics(), postern_client.__file__)"
IN_NODE = 'import { Postern } from "@postern/client"; console.log(await new Postern(process.argv[2]).getMetrics())'


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    pack(folder, VERSION)
    return folder


def test_two_builds_are_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    former = os.umask(0o077)
    try:
        pack(tmp_path, VERSION)
    finally:
        os.umask(former)
    names = [f"postern-client-{VERSION}.tgz", f"postern_client-{VERSION}-py3-none-any.whl"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert [(tmp_path / name).read_bytes() == (packages / name).read_bytes() for name in names] == [True, True]


def test_pip_installs_the_wheel(packages: Path, tmp_path: Path) -> None:
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", tmp_path, *packages.glob("*.whl")], check=True)
    assert {entry.name for entry in tmp_path.iterdir()} == {"postern_client", f"postern_client-{VERSION}.dist-info"}
    assert (tmp_path / "postern_client" / "py.typed").exists()
    with scripted([ScriptedAnswer(200, "fine")]) as server:
        shown = subprocess.run(
            [sys.executable, "-c", IN_PYTHON, server.url],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    assert shown.strip() == f"fine {tmp_path / 'postern_client' / '__init__.py'}"


@needs("node", "npm")
def test_npm_installs_the_archive(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (archive,) = packages.glob("*.tgz")
    subprocess.run(["npm", "install", "--offline", "--silent", "--no-audit", "--no-fund", archive], cwd=tmp_path, check=True)
    assert {entry.name for entry in (tmp_path / "node_modules" / "@postern" / "client").iterdir()} == {
        "LICENSE",
        "README.md",
        "package.json",
        "src",
    }
    (tmp_path / "program.mjs").write_text(IN_NODE)
    with scripted([ScriptedAnswer(200, "fine")]) as server:
        shown = subprocess.run(["node", "program.mjs", server.url], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert shown == "fine\n"
