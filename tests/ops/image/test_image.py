"""The image, made twice, and started where nothing but the image is."""

import hashlib
import http.client
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrypoints.settings import read
from ops.image import debian, libraries
from ops.image.__main__ import CACHE
from ops.image.debian import NotMade, PackageList
from ops.image.packages import renewed
from ops.image.sealing import USER
from tests.e2e.postern import until
from tests.e2e.test_wheel import build
from tests.ops.image.container import Container, Layout
from tests.places import ROOT
from tests.tools import needs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the image is for Linux on x86-64"),
    needs("bwrap", "apt-get", "dpkg-deb"),
]
MOST_BYTES = 250_000_000
PASSWORD = "a lantern beside the water"


@pytest.fixture
def list_of_packages(tmp_path: Path) -> Path:
    """The list of the repository. When Debian has replaced one of its packages since, a list of today's."""
    made = tmp_path / "packages.json"
    given = PackageList.read()
    try:
        try:
            debian.download(given, CACHE / "debian")
        except NotMade:
            given = renewed()
            debian.download(given, CACHE / "debian")
        libraries.download(ROOT / "requirements.lock", CACHE / "libraries")
    except NotMade as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))
    given.write(made)
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """Everybody can enter it."""
    with tempfile.TemporaryDirectory(prefix="postern-container-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_two_builds_are_one_image_that_serves_and_backs_up_without_the_checkout(
    list_of_packages: Path, tmp_path: Path, folder: Path
) -> None:
    first, second = made_twice(list_of_packages, tmp_path)
    for file in first.glob("postern-*-image*"):
        assert file.read_bytes() == (second / file.name).read_bytes(), file.name
    (archive,) = first.glob("*-image.tar")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "layout", filter="data")
    layout = Layout(tmp_path / "layout")
    check_layout(layout, archive)

    container = Container(layout, folder, {"POSTERN_BIND": "127.0.0.1:0", "POSTERN_OWNER_PASSWORD": PASSWORD})
    check_files(container.root)
    check_bill(first, container.root)
    serving = container.start(log=tmp_path / "log")
    try:
        port = until(lambda: announced(tmp_path / "log") or serving.poll() is not None)
        assert port is not True, (tmp_path / "log").read_text()
        assert post(port, "/api/auth/login", {"email": "owner@postern.local", "password": PASSWORD}) == 200
        check_confinement(container)
        check_backups(container)
    finally:
        serving.terminate()
        serving.wait()


def made_twice(packages: Path, tmp_path: Path) -> tuple[Path, Path]:
    """At once, in other places, by users with other habits."""
    wheel = build(ROOT, tmp_path / "wheel")
    targets = (tmp_path / "one", tmp_path / "the-other")
    building = []
    for target, umask, zone in zip(targets, (0o022, 0o077), ("UTC", "Asia/Kathmandu"), strict=True):
        (target / "tmp").mkdir(parents=True)
        shutil.copy(wheel, target)
        words = [sys.executable, "-m", "ops.image", str(target / wheel.name), "--packages", str(packages)]
        environment = {**os.environ, "TMPDIR": str(target / "tmp"), "TZ": zone}
        building.append(subprocess.Popen(words, cwd=ROOT, env=environment, umask=umask, stdout=subprocess.PIPE, text=True))
    said = [one.communicate()[0] for one in building]
    assert [one.returncode for one in building] == [0, 0], said
    digest = (targets[0] / f"postern-{wheel.name.split('-')[1]}-image.digest").read_text().strip()
    assert said[0].splitlines()[-1].startswith(f"{digest}, ")
    return targets


def check_layout(layout: Layout, archive: Path) -> None:
    """Each blob has the digest and the size by which it is named, and both forms of the list name the same."""
    (described,) = layout.index()["manifests"]
    assert described["digest"] == archive.with_suffix(".digest").read_text().strip()
    named = [described, layout.manifest()["config"], *layout.manifest()["layers"]]
    for one in named:
        content = layout.blob(one["digest"]).read_bytes()
        assert one["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert one["size"] == len(content)
    assert len(list((layout.folder / "blobs" / "sha256").iterdir())) == len(named)
    (docker,) = json.loads((layout.folder / "manifest.json").read_text())
    assert [docker["Config"], *docker["Layers"]] == [f"blobs/{one['digest'].replace(':', '/')}" for one in named[1:]]
    config = layout.config()["config"]
    assert config["User"] == f"{USER}:{USER}"
    settings = read({name: value for name, value in (pair.split("=", 1) for pair in config["Env"]) if name.startswith("POSTERN_")})
    assert list(config["Volumes"]) == [str(settings.data_dir)]
    assert list(config["ExposedPorts"]) == [f"{settings.bind.port}/tcp"]


def check_files(root: Path) -> None:
    files = [file for file in root.rglob("*") if not file.is_symlink() and file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert not [file for file in files if file.stat().st_mode & 0o6000]
    assert not [file for file in files if file.stat().st_mode & 0o022]
    compiled = {file.name.partition(".")[0] for file in (root / "opt/postern").rglob("*.pyc")}
    assert {"supervisor", "cryptography", "trio"} & compiled
    assert not list(root.rglob("*.egg-link"))
    assert not {"pip", "apt", "dpkg", "perl", "openssl"} & {file.name for file in (root / "usr/bin").iterdir()}


def check_bill(made: Path, root: Path) -> None:
    """Every package and every library is in the SBOM, with its digest and a licence."""
    (file,) = made.glob("*.cdx.json")
    assert (root / "opt/postern/share/postern/sbom.cdx.json").read_bytes() == file.read_bytes()
    bill = json.loads(file.read_text())
    components = {one["purl"].partition("@")[0]: one for one in bill["components"]}
    wanted = {*debian.WANTED["packages"], *debian.WANTED["packages-of-next"]}
    locked = re.findall(r"^([\w.-]+)==\S+ (?!; sys_platform == 'win32')", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    expected = {f"pkg:deb/debian/{name}" for name in wanted} | {f"pkg:pypi/{name}" for name in locked} | {"pkg:generic/postgresql"}
    assert set(components) == expected
    assert bill["metadata"]["component"]["purl"].startswith("pkg:pypi/postern@")
    (licences,) = made.glob("*-licences.txt")
    text = licences.read_text()
    for name, one in components.items():
        assert one["licenses"], name
        assert one.get("hashes") or name == "pkg:generic/postgresql", name
        assert f"\n{one['name']} {one['version']}\n" in text or name == "pkg:generic/postgresql", name
    status = (root / "var/lib/dpkg/status").read_text()
    assert set(re.findall(r"^Package: (\S+)$", status, re.MULTILINE)) == wanted
    for name in wanted:
        assert (root / "usr/share/doc" / name / "copyright").is_file(), name


def check_confinement(container: Container) -> None:
    probe = "import os; print(os.getuid(), os.access('/', os.W_OK), os.access('/opt/postern', os.W_OK), os.access('.', os.W_OK))"
    done = container.run("python", "-c", probe)
    assert done.stdout.split() == [str(USER), "False", "False", "True"], done.stderr
    # Which the wheel's own programs cannot: their libpq has no TLS.
    asked = container.run("psql", "host=127.0.0.1 port=1 sslmode=verify-full sslrootcert=/etc/ssl/certs/ca-certificates.crt")
    assert "Connection refused" in asked.stderr


def check_backups(container: Container) -> None:
    """By Debian's programs from the server that serves, and into the scratch server of the check."""
    url = "postgresql://postern@/postern?host=/var/lib/postern/postgres/run"
    keys = (container.volume / "encryption.keys").read_text().strip()
    created = container.run("postern", "backup", "create", POSTERN_DATABASE_URL=url, POSTERN_ENCRYPTION_KEYS=keys)
    assert created.returncode == 0, created.stderr
    checked = container.run("postern", "backup", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert ": verified." in checked.stdout
    version = container.run("pg_dump", "--version").stdout
    assert f"(PostgreSQL) {debian.WANTED['packages-of-next'][-1].rpartition('-')[2]}." in version


def announced(log: Path) -> int | None:
    found = re.search(r'"event": ?"ready".*?"listens": ?"127\.0\.0\.1:(\d+)"', log.read_text())
    return int(found[1]) if found else None


def post(port: int, path: str, body: dict[str, Any]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    try:
        return connection.getresponse().status
    finally:
        connection.close()
