"""Runs pytest on Debian's PostgreSQL: `python -m tests.runs.oldest -n 6` (docs/decisions/0177-what-runs-where.md)."""

import os
import subprocess
import sys
from collections.abc import Sequence

from ops.free_ports import free_port
from tests.adapters.postgres.oldest.server import old_server
from tests.runs.ending import unwind_when_told


def main(arguments: Sequence[str]) -> int:
    unwind_when_told()
    port = str(free_port())
    # As many connections as the embedded server takes. Some tests make addresses of their own, so it listens on loopback, too.
    with old_server(listen_addresses="127.0.0.1", port=port, max_connections="200", synchronous_commit="off", max_wal_size="128MB"):
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        return subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], env={**os.environ, "POSTERN_TEST_DATABASE": address}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
