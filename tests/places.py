"""Where things are in the checkout, and where a run keeps what it makes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parent.parent
MIGRATIONS = ROOT / "adapters" / "postgres" / "migrations"
# Where a machine keeps files in memory, and what a run may need of it.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
_MOST_NEEDED: Final = 4 << 30


@contextmanager
def directory_of_a_run() -> Iterator[Path]:
    """Where `tempfile` makes its files during the run, in this process and in those that it starts. In memory, if there is enough: to make
    a database and to drop it costs the disk's file system far more processor time.
    """
    before = tempfile.gettempdir()
    with suppress(OSError):
        _remove_leavings(_MEMORY)
    parent = _MEMORY if _has_room(_MEMORY) else Path(before)
    directory = Path(tempfile.mkdtemp(prefix=f"postern-tests-{os.getpid()}-", dir=parent))
    # As open as the directory that it stands for: other users run servers in it.
    directory.chmod(0o1777)
    tempfile.tempdir = os.environ["TMPDIR"] = str(directory)
    # What tests wrote is looked at after a failure: pytest keeps that itself, for its last three runs.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", before)
    try:
        yield directory
    finally:
        tempfile.tempdir = os.environ["TMPDIR"] = before
        shutil.rmtree(directory, ignore_errors=True)


def _has_room(memory: Path) -> bool:
    try:
        free = os.statvfs(memory)
    except OSError:
        return False
    return os.access(memory, os.W_OK | os.X_OK) and free.f_bavail * free.f_frsize >= _MOST_NEEDED


def _remove_leavings(memory: Path) -> None:
    """What runs left that were killed, so that it does not fill the memory."""
    for directory in memory.glob("postern-tests-*-*"):
        number = directory.name.split("-")[2]
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def open_directory() -> Iterator[Path]:
    """For a PostgreSQL of a test's own: pytest's directories are closed to other users, and root's PostgreSQL runs as one."""
    with tempfile.TemporaryDirectory(prefix="postern-test-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
