"""Paths in the checkout, and the directory where a run of the tests keeps its files."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parent.parent
# Pages and the console, with the texts and templates beside each page.
PAGES = ROOT / "entrypoints" / "http"
MIGRATIONS = ROOT / "adapters" / "postgres" / "migrations"
REPLACEABLE = ROOT / "adapters" / "postgres" / "schema" / "replaceable.sql"
# The directory whose files the machine keeps in memory. A run writes up to a gigabyte there, beside three gigabytes for its processes.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
_FILES: Final = 2 << 30
_EVERYTHING: Final = 8 << 30
# The memory limit of a container, in either generation of the kernel's control groups.
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_KILLED_BEFORE: Final = 3600.0


def templates() -> Mapping[str, Path]:
    """The templates by the names that pages call them: a kit is in no name."""
    names = {file: file.relative_to(PAGES).as_posix().removeprefix("pages/") for file in sorted(PAGES.rglob("*.html"))}
    return {name.replace("kit/", "", 1): file for file, name in names.items()}


@contextmanager
def directory_of_a_run() -> Iterator[Path]:
    """A directory that is removed after the run. If there is enough memory, the directory is in memory, and `tempfile` uses it too, in this
    process and in processes that the tests start. To make and drop a database costs the disk's file system far more processor time.
    """
    with suppress(OSError):
        _remove_leavings(_MEMORY)
    before = tempfile.gettempdir()
    in_memory = _has_room(_MEMORY)
    prefix = f"postern-tests-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=_MEMORY if in_memory else None, ignore_cleanup_errors=True) as name:
        if not in_memory:
            # A server of another user must be able to pass through.
            Path(name).chmod(0o711)
            yield Path(name)
            return
        # The same mode as the directory that it replaces.
        Path(name).chmod(0o1777)
        tempfile.tempdir = os.environ["TMPDIR"] = name
        # Files of tests are looked at after a failure, so pytest keeps those of its last three runs on disk.
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
        with suppress(OSError, ValueError):  # without a limit the file says "max"
            limits.append(int(file.read_text()))
    return min(limits) >= _EVERYTHING


def _remove_leavings(memory: Path) -> None:
    """Removes directories of runs that were killed, so that these directories do not fill the memory."""
    for directory in memory.glob("postern-tests-*-*"):
        number = directory.name.split("-")[2]
        # Processes of another container are invisible here, so a run there may still be going on.
        old = directory.stat().st_mtime < time.time() - _KILLED_BEFORE
        if old and number.isdecimal() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory for a PostgreSQL of a test's own. Pytest's directories are closed to other users, and PostgreSQL under root runs as
    another.
    """
    with tempfile.TemporaryDirectory(prefix="postern-test-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
