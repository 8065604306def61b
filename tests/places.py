"""Where things are in the checkout."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
MIGRATIONS = ROOT / "adapters" / "postgres" / "migrations"


@contextmanager
def open_directory() -> Iterator[Path]:
    """For a PostgreSQL of a test's own: pytest's directories are closed to other users, and root's PostgreSQL runs as one."""
    with tempfile.TemporaryDirectory(prefix="postern-test-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
