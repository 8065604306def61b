"""What the timers and the CronJobs start, as processes: their own lines, where nothing may be written but what unit and pod give them."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from adapters.backup_folders import kept_backups
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres
from core.domain.backups import BACKUP_CHECKED
from entrypoints.bootstrap import open_postern
from entrypoints.settings import read
from ops.drill.proxies import replaced
from ops.free_ports import free_port
from tests.ops.machines.test_backups_by_themselves import KEYS, UNITS, begin, pod, require_version_that_proves
from tests.ops.test_container import instructions
from tests.places import open_directory
from tests.tools import needs

COMMAND: Final = Path(sys.executable).parent / "postern"
PATH: Final = f"{COMMAND.parent}:{BINARIES}:/usr/bin:/bin"
OLD: Final = "20200101T000000Z-abcdef"
alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a file system read-only for one process")


def unit(name: str) -> list[tuple[str, str]]:
    return re.findall(r"^(\w+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE)


def of(name: str, word: str) -> list[str]:
    return [value for given, value in unit(name) if given == word]


def start(command: Sequence[str], environment: Mapping[str, str], writable: Sequence[Path], place: Path) -> str:
    """Runs it where everything but these folders is read-only."""
    lines = [f"mount --bind {shlex.quote(str(one))} {shlex.quote(str(one))}" for one in writable]
    around = next(one for one in place.resolve().parents if one.is_mount())
    lines += [f"mount -o remount,bind,ro {shlex.quote(str(one))}" for one in {Path("/"), around}]
    script = "\n".join([*lines, f"! touch {shlex.quote(str(place / 'forbidden'))} 2> /dev/null", 'exec "$@"'])
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", script, "sh", *command],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make(*folders: Path) -> None:
    # PostgreSQL, which runs as another user than root, passes through.
    folders[0].parent.chmod(0o711)
    for folder in folders:
        folder.mkdir(mode=0o711)


def keep_an_old_one(backups: Path) -> None:
    (backups / OLD).mkdir()
    os.utime(backups / OLD, (0, 0))


async def proved_at(url: str, data: Path) -> datetime | None:
    """What `sso_backup_checked_timestamp_seconds` says, which PosternBackupUnproved watches."""
    settings = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(data)})
    async with open_postern(settings) as postern:
        return await postern.record.audit.last(BACKUP_CHECKED)


def is_proved(url: str, data: Path) -> bool:
    at = trio.run(proved_at, url, data)
    return at is not None and datetime.now(UTC) - at < timedelta(minutes=10)


@alone
@needs("unshare")
def test_the_units_make_a_backup_and_prove_it(empty_database_url: str) -> None:
    require_version_that_proves(empty_database_url)
    with open_directory() as place:
        backups, data, work, etc = (place / name for name in ("backups", "data", "work", "etc"))
        make(backups, data, work, etc)
        trio.run(begin, empty_database_url, data)
        keep_an_old_one(backups)
        (etc / "postern.conf").write_text(f"POSTERN_DATABASE_URL={empty_database_url}\nPOSTERN_ENCRYPTION_KEYS={KEYS}\n")
        here = {
            "/opt/postern/.venv/bin/postern": str(COMMAND),
            "/var/backups/postern": str(backups),
            "/var/lib/postern": str(data),
            "/etc/postern": str(etc),
            "/var/tmp": str(work),  # noqa: S108 - the unit's own, since PrivateTmp is on
        }
        assert not is_proved(empty_database_url, data)
        said = ""
        for name in ("postern-backup.service", "postern-backup-check.service"):
            assert of(name, "PrivateTmp") == ["yes"]
            environment = dict(_at(here, line).split("=", 1) for line in of(name, "Environment"))
            writable = [Path(_at(here, one)) for line in of(name, "ReadWritePaths") for one in line.split()]
            for line in (*of(name, "ExecStart"), *of(name, "ExecStartPost")):
                said = start(shlex.split(_at(here, line)), {"PATH": PATH, "TMPDIR": str(work), **environment}, [*writable, work], place)
        (kept,) = kept_backups(backups)
        assert not (backups / OLD).exists()
        assert f"{kept.path.name}: verified." in said
        assert is_proved(empty_database_url, data)


def _at(here: Mapping[str, str], line: str) -> str:
    for old, new in here.items():
        line = line.replace(old, new)
    return line


def environment_of(container: Mapping[str, Any], url: str, mounted: Mapping[str, Path]) -> dict[str, str]:
    """The image's, and the pod's, whose secrets are the test's."""
    secrets = {"database-url": url, "encryption-keys": KEYS}
    given = {one["name"]: secrets[one["valueFrom"]["secretKeyRef"]["key"]] for one in container["env"]}
    data, temporary = mounted["/var/lib/postern"], mounted["/tmp"]  # noqa: S108 - the pod's own
    return {"PATH": PATH, "POSTERN_DATA_DIR": str(data), "TMPDIR": str(temporary), **given}


@alone
@needs("unshare")
def test_the_pods_make_a_backup_and_prove_it(empty_database_url: str) -> None:
    require_version_that_proves(empty_database_url)
    (entrypoint,) = [json.loads(one.text) for one in instructions() if one.word == "ENTRYPOINT"]
    with open_directory() as place:
        create, check = (pod(name)["containers"][0] for name in ("create.yaml", "check.yaml"))
        mounted = {mount["mountPath"]: place / mount["name"] for mount in create["volumeMounts"]}
        backups, data = mounted["/backups"], mounted["/var/lib/postern"]
        make(*mounted.values(), place / "begun")
        trio.run(begin, empty_database_url, place / "begun")
        keep_an_old_one(backups)
        here = {"/backups": str(backups)}
        assert all(mount["mountPath"] in mounted and "readOnly" not in mount for mount in create["volumeMounts"])
        script = replaced(create["args"][0], here)
        start([*create["command"], script], environment_of(create, empty_database_url, mounted), list(mounted.values()), place)
        (kept,) = kept_backups(backups)
        assert not (backups / OLD).exists()

        (sidecar,) = pod("check.yaml")["initContainers"]
        settings = dict(one.split("=") for one in sidecar["args"] if one != "-c")
        port = free_port()
        writable = [mounted[mount["mountPath"]] for mount in check["volumeMounts"] if not mount.get("readOnly")]
        assert backups not in writable
        with EmbeddedPostgres(place / "scratch", {**settings, "port": str(port)}):
            words = [
                replaced(one, {"127.0.0.1/": f"127.0.0.1:{port}/"}) if "@127.0.0.1" in one else _at(here, one) for one in check["args"]
            ]
            said = start([*entrypoint, *words], environment_of(check, empty_database_url, mounted), writable, place)
        assert f"{kept.path.name}: verified." in said
        assert is_proved(empty_database_url, data)


@needs("systemd-analyze")
def test_the_timers_come_every_night_and_every_week_at_the_hours_of_the_cron_jobs() -> None:
    for name, job in (("postern-backup.timer", "create.yaml"), ("postern-backup-check.timer", "check.yaml")):
        (when,) = of(name, "OnCalendar")
        done = subprocess.run(
            ["systemd-analyze", "calendar", "--iterations=3", when],
            env={"TZ": "UTC", "PATH": PATH},
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(re.findall(r"02:10:00 UTC" if "backup." in name else r"Sun .* 04:10:00 UTC", done.stdout)) >= 3, done.stdout
        assert job
