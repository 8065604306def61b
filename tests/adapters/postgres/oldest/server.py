"""Debian's PostgreSQL, which is older than the embedded one, as a server of this run."""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from core.frozen import Frozen
from tests.tools import place_of

_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "jit": "off",
    "log_statement": "none",
}
_numbers = count(1)


class OldServer(Frozen):
    """`programs` is the directory with its own client programs."""

    programs: Path
    sockets: Path

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self.sockets), safe='')}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty one."""
        name = f"old_{next(_numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name} template template0 encoding 'UTF8'".encode())
        yield self.url(name)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


@contextmanager
def old_server(**settings: str) -> Iterator[OldServer]:
    """`settings` go over those that make a short life quick."""
    # It stands beside the client programs of its version; /usr/bin has those of the newest one.
    programs = Path(place_of("pg_ctl")).parent
    # PostgreSQL refuses to run as root. Debian's package has made this user.
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())

    def run(program: str, *arguments: str) -> None:
        is_root = os.geteuid() == 0
        subprocess.run(
            [str(programs / program), *arguments],
            check=True,
            # The server would keep a pipe open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=120,
            user=user.pw_uid if is_root else None,
            group=user.pw_gid if is_root else None,
            extra_groups=() if is_root else None,
        )

    with tempfile.TemporaryDirectory(prefix="oldest-", ignore_cleanup_errors=True) as name:
        os.chown(name, user.pw_uid, user.pw_gid)
        data, log = f"{name}/data", f"{name}/log"
        run("initdb", f"--pgdata={data}", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        given = {**_SETTINGS, "unix_socket_directories": name, **settings}
        options = " ".join(f"-c {setting}={value}" for setting, value in given.items())
        run("pg_ctl", "--pgdata", data, "--log", log, "--options", options, "--wait", "start")
        try:
            yield OldServer(programs, Path(name))
        finally:
            run("pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")
