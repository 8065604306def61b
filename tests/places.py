"""Where things are in the checkout, and where a run keeps what it makes."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parent.parent
MIGRATIONS = ROOT / "adapters" / "postgres" / "migrations"
# Where a machine keeps files in memory. A run makes up to a gigabyte there, beside the three that its processes need.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
_FILES: Final = 2 << 30
_EVERYTHING: Final = 8 << 30
# What a container may use in all, by either generation of the kernel's control groups.
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_KILLED_BEFORE: Final = 3600.0


@contextmanager
def directory_of_a_run() -> Iterator[Path]:
    """Gone after the run. If there is enough memory, it is there, and `tempfile` makes its files in it, here and in the processes that are
    started: to make a database and to drop it costs the disk's file system far more processor time.
    """
    with suppress(OSError):
        _remove_leavings(_MEMORY)
    before = tempfile.gettempdir()
    in_memory = _has_room(_MEMORY)
    prefix = f"postern-tests-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=_MEMORY if in_memory else None, ignore_cleanup_errors=True) as name:
        if not in_memory:
            # Another user's server passes through.
            Path(name).chmod(0o711)
            yield Path(name)
            return
        # As open as the directory that it stands for.
        Path(name).chmod(0o1777)
        tempfile.tempdir = os.environ["TMPDIR"] = name
        # What tests wrote is looked at after a failure: pytest keeps that itself, for its last three runs.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", before)
        yield Path(name)
        tempfile.tempdir = os.environ["TMPDIR"] = before


def _has_room(memory: Path) -> bool:
    try:
        files = os.statvfs(memory)
        available = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())["MemAvailable:"]
    except (OSError, KeyError):
        return False
    if not os.access(memory, os.W_OK | os.X_OK) or files.f_bavail * files.f_frsize < _FILES:
        return False
    limits = [int(available) << 10]
    for file in _LIMITS:
        with suppress(OSError, ValueError):  # where nothing is limited, it says "max"
            limits.append(int(file.read_text()))
    return min(limits) >= _EVERYTHING


def _remove_leavings(memory: Path) -> None:
    """What runs left that were killed, so that it does not fill the memory."""
    for directory in memory.glob("postern-tests-*-*"):
        number = directory.name.split("-")[2]
        # Another container's processes cannot be seen from here: its run may be going on.
        old = directory.stat().st_mtime < time.time() - _KILLED_BEFORE
        if old and number.isdecimal() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def open_directory() -> Iterator[Path]:
    """For a PostgreSQL of a test's own: pytest's directories are closed to other users, and root's PostgreSQL runs as one."""
    with tempfile.TemporaryDirectory(prefix="postern-test-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
