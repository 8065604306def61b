"""The wheel beside another wheel that has a `core` of its own, and away from the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from entrypoints.cli.files import FILES, place
from ops.packaging.one_root import LAYERS
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy
from tests.places import ROOT

pytestmark = pytest.mark.slow

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
# `-S` keeps the environment's own Postern out, which is the checkout. The libraries come by PYTHONPATH.
PYTHON = (sys.executable, "-S")
# Imports every module of ours, and tells which modules with a name of ours came from elsewhere.
IMPORT_ALL = """
import json, pkgutil, sys
import core, postern
for module in pkgutil.walk_packages(postern.__path__, "postern."):
    __import__(module.name)
floors = ("core", "ports", "adapters", "actors", "entrypoints")
print(json.dumps({
    "whose": core.WHOSE,
    "others": sorted(name for name in sys.modules if name.split(".")[0] in floors),
    "ours": sum(name.startswith("postern.") for name in sys.modules),
}))
"""


def build(source: Path, folder: Path) -> Path:
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, source], check=True)
    (made,) = folder.glob("postern-*.whl")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def wheel_of_others(folder: Path) -> Path:
    made = folder / "neighbour-1-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("core/__init__.py", "WHOSE = 'the neighbour'\n")
        archive.writestr("entrypoints/__init__.py", "raise ImportError('this is the neighbour')\n")
        archive.writestr("neighbour-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: neighbour\nVersion: 1\n")
        archive.writestr("neighbour-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("neighbour-1.dist-info/RECORD", "")
    return made


def test_the_wheel_and_a_neighbour_with_a_core_both_work(
    wheel: Path, installation: Installation, e2e_directory: Path, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    command: list[str | Path] = [*PIP, "install", "--no-compile", "--no-deps", "--no-index", "--target", packages]
    subprocess.run([*command, wheel, wheel_of_others(tmp_path)], check=True)
    path = os.pathsep.join([str(packages), sysconfig.get_path("purelib")])

    environment = {**os.environ, "PYTHONPATH": path}
    told = subprocess.run([*PYTHON, "-c", IMPORT_ALL], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(told.stdout)
    modules = sum(1 for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))
    assert (found["whose"], found["others"]) == ("the neighbour", ["core"])
    assert found["ours"] == modules

    write = [*PYTHON, str(packages / "bin" / "postern"), "files", "runbook"]
    subprocess.run(write, cwd=tmp_path, env=environment, check=True, capture_output=True)
    for page in FILES["runbook"]:
        assert (tmp_path / place(page)).read_bytes() == (ROOT / page).read_bytes()

    # Two processes, because a parent starts its children by the name of a module.
    server = Postern(
        copy(installation.data_dir, e2e_directory / "from-the-wheel"),
        ["--processes", "2"],
        {"PYTHONPATH": path},
        tree=tmp_path,
        command=(*PYTHON, str(packages / "bin" / "postern"), "serve"),
    )
    try:
        server.start()
        signed_in = server.post("/api/auth/login", {"email": "owner@postern.local", "password": installation.owner_password})
        assert signed_in.status == 200
        assert server.get("/ui/sign-in").status == 200
        assert server.get("/openapi.json").json()["paths"]
        assert server.get("/docs/guides/apis-guards").status == 200
        assert server.stop() == 0
    finally:
        server.close()


def test_the_wheel_carries_every_file_and_two_builds_are_the_same(wheel: Path, tmp_path: Path) -> None:
    # The copy has other dates, and a module that the source has lost is left from a build of before.
    tree = tmp_path / "tree"
    (tree / "build" / "lib" / "core").mkdir(parents=True)
    (tree / "build" / "lib" / "core" / "lost.py").touch()
    (tree / "ops").mkdir()
    subprocess.run(["cp", "-r", *LAYERS, "pyproject.toml", "README.md", "LICENSE", str(tree)], cwd=ROOT, check=True)
    subprocess.run(["cp", "-r", "ops/packaging", str(tree / "ops")], cwd=ROOT, check=True)
    beside = ["CHANGELOG.md", *(path for paths in FILES.values() for path in paths)]
    guides = [str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "guides").rglob("*.md")]
    subprocess.run(["cp", "--parents", *beside, *guides, str(tree)], cwd=ROOT, check=True)
    assert build(tree, tmp_path / "dist").read_bytes() == wheel.read_bytes()

    carried = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [file for layer in LAYERS for file in (ROOT / layer).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    shown = [*map(place, beside), *(path.removeprefix("docs/") for path in guides)]
    data = {f"postern-{version('postern')}.data/data/share/postern/{path}" for path in shown}
    assert carried == {"postern/__init__.py", *data, *(f"postern/{file.relative_to(ROOT)}" for file in files)}
    assert "postern/adapters/postgres/migrations/0001_release_0_2.sql" in carried
    assert "postern/adapters/postgres/schema/replaceable.sql" in carried
