"""Backups are made every night and checked every week: the files of each way to run Postern, tried as processes."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import yaml

from adapters.backup_folders import kept_backups
from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.embedded import BINARIES, MAJOR_VERSION
from adapters.postgres.migrate import migrate
from entrypoints.bootstrap import open_postern
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.first_start import complete
from entrypoints.settings import read
from tests.ops.test_container import compose, instructions
from tests.ops.test_kubernetes import built
from tests.places import ROOT
from tests.tools import needs

UNITS: Final = ROOT / "ops" / "backups"
CRON_JOBS: Final = ROOT / "ops" / "kubernetes" / "backups"
SCRIPT: Final = ROOT / "ops" / "container" / "backups.sh"
KEYS: Final = EncryptionKey("test", b"k" * 32).line()


def cron_job(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CRON_JOBS / name).read_text())
    return loaded


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = cron_job(name)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def commands() -> Iterator[Sequence[str]]:
    """Every call of `postern` in these files."""
    texts = [SCRIPT.read_text(), *(unit.read_text() for unit in UNITS.glob("*.service"))]
    create = pod("create.yaml")["containers"][0]
    for line in "\n".join([*texts, *create["args"]]).splitlines():
        found = re.search(r"(?:^| |/)postern (backup [^;]*)", line)
        if found is not None and not line.startswith("#"):
            yield shlex.split(found[1])
    yield pod("check.yaml")["containers"][0]["args"]


def test_every_command_is_one_of_ours() -> None:
    asked = [command_line(tuple(words)).parse_args(words) for words in commands()]
    assert sorted(one.module for one in asked) == ["backups.check"] * 3 + ["backups.create"] * 3


def test_the_image_has_the_clients_of_the_server_of_the_compose_file(tmp_path: Path) -> None:
    """The lines of the Dockerfile, in another place than `/opt/postern`."""
    (line,) = [one.text for one in instructions() if one.word == "RUN" and "pg_dump" in one.text]
    libraries = tmp_path / "lib" / "python3.11"
    libraries.mkdir(parents=True)
    (libraries / "site-packages").symlink_to(sysconfig.get_path("purelib"))
    done = subprocess.run(["/bin/sh", "-ec", line.replace("/opt/postern", str(tmp_path))], capture_output=True, text=True, check=True)
    versions = re.findall(r"\(PostgreSQL\) (\d+)", done.stdout)
    servers = {service["image"].partition(":")[2] for service in compose()["services"].values() if service["image"].startswith("postgres:")}
    sidecar = pod("check.yaml")["initContainers"][0]["image"]
    assert servers == {*versions, sidecar.partition(":")[2]}
    path = next(pair for one in instructions() if one.word == "ENV" for pair in one.words if "client" in pair)
    assert "/opt/postern/client/postgresql/bin" in path


def test_compose_keeps_backups_in_a_volume_and_checks_them_where_nobody_else_is() -> None:
    services = compose()["services"]
    assert "backups:/backups" in services["backups"]["volumes"]
    assert services["backups"]["read_only"] is True
    assert [name for name, one in services.items() if "checks" in one["networks"]] == ["backups", "scratch"]
    assert services["scratch"]["networks"] == ["checks"]
    (made,) = [one.text for one in instructions() if "install --directory --owner" in one.text]
    assert "/backups" in made.split()


def shim(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def require_version_that_proves(url: str) -> None:
    """The embedded server checks the backup of an older one, and proves none: it prints parts of the schema in another way."""
    if trio.run(server_version, url) // 10_000 != int(MAJOR_VERSION):
        pytest.skip(f"only a backup of PostgreSQL {MAJOR_VERSION} is proved by it")


def test_the_service_of_the_compose_file_backs_up_and_checks_in_a_sunday_night(empty_database_url: str, tmp_path: Path) -> None:
    require_version_that_proves(empty_database_url)
    backups, programs = tmp_path / "backups", tmp_path / "programs"
    backups.mkdir()
    programs.mkdir()
    old = backups / "20200101T000000Z-abcdef"
    old.mkdir()
    os.utime(old, (0, 0))
    environment = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{BINARIES}:{os.environ['PATH']}",
        "POSTERN_DATABASE_URL": empty_database_url,
        "POSTERN_ENCRYPTION_KEYS": KEYS,
        "POSTERN_DATA_DIR": str(tmp_path / "data"),
        "SCRATCH_URL": empty_database_url,
    }
    trio.run(begin, empty_database_url, tmp_path / "data")
    # Saturday, 23:00: three hours are left. The second night does not come.
    shim(programs, "date", 'case "$*" in +%s) echo 1769900400 ;; *) echo 7 ;; esac')
    shim(programs, "sleep", f'echo "$1" >> {tmp_path}/slept; test "$(wc -l < {tmp_path}/slept)" -lt 2 || kill "$PPID"')
    script = tmp_path / "backups.sh"
    script.write_text(SCRIPT.read_text().replace("/backups", str(backups)))
    done = subprocess.run(["/bin/sh", str(script)], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "slept").read_text().split() == ["10800", "10800"]
    (kept,) = kept_backups(backups)
    assert not old.exists()
    assert f"{kept.path.name}: verified." in done.stdout


async def begin(url: str, folder: Path) -> None:
    await migrate(url, lambda _line: None)
    settings = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(folder)})
    async with open_postern(settings) as postern:
        await complete(postern, settings)


@pytest.mark.parametrize("name", ["create.yaml", "check.yaml"])
def test_a_job_may_do_nothing_that_it_need_not(name: str) -> None:
    one = pod(name)
    assert one["automountServiceAccountToken"] is False
    assert one["securityContext"]["runAsNonRoot"] is True
    for container in [*one["containers"], *one.get("initContainers", [])]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in one["volumes"]}
    (claim,) = [volume["persistentVolumeClaim"]["claimName"] for volume in one["volumes"] if "persistentVolumeClaim" in volume]
    assert claim == yaml.safe_load((CRON_JOBS / "volume.yaml").read_text())["metadata"]["name"]


@needs("kubectl")
def test_kustomize_builds_the_jobs_with_the_image_of_the_release() -> None:
    jobs = [one for one in built(CRON_JOBS) if one["kind"] == "CronJob"]
    images = {one["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] for one in jobs}
    assert len(jobs) == 2
    assert all(image.startswith("registry.example.com/postern:") for image in images)


@needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_timers(tmp_path: Path) -> None:
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/opt/postern/.venv/bin/postern", sys.executable)
        (tmp_path / unit.name).write_text(text)
    timers = [str(tmp_path / unit.name) for unit in UNITS.glob("*.timer")]
    done = subprocess.run(["systemd-analyze", "verify", *timers], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
