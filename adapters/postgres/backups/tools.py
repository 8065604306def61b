"""PostgreSQL's own programs, which write and read dumps: the embedded PostgreSQL's, or those on the operator's PATH."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import HOST_PATIENCE
from adapters.postgres.embedded import BINARIES
from core.frozen import Frozen

_VERSION: Final = re.compile(r"(\d+)(?:\.\d+|beta\d+|rc\d+|devel)")
# PostgreSQL 17 brought `transaction_timeout`.
_NEW_SETTING: Final = 17
_LONGEST_REASON: Final = 300
# In seconds. A program that has no connection by then gets none.
START: Final = 20.0
# The program says what it does, and asks nobody for a password.
_OPTIONS: Final = ("--verbose", "--no-password")
# What pg_restore says before it is connected. Whatever a program says afterwards, it says because it works.
_STILL_CONNECTING: Final = b"connecting to database"
# The value that a column does not take. It may be personal.
_VALUE: Final = re.compile(r': ".*')
# The table whose rows are restored last, so that no Postern starts on half a database.
MARK: Final = "schema_migrations"
_MARK_DATA: Final = re.compile(rf"^\d+; \d+ \d+ TABLE DATA \S+ {MARK} ", re.MULTILINE)
# The schema of the parts of tables. An operator whose role may not make a schema has made it beforehand.
_PARTS: Final = re.compile(r"^\d+; \d+ \d+ SCHEMA - partitions ", re.MULTILINE)
_HAS_PARTS: Final = "select to_regnamespace('partitions') is not null"


class ToolsUnusable(Exception):
    """The programs are missing or too old. The message is one sentence for the operator."""


class ToolFailed(Exception):
    """A program reported a failure. The message is its reason, without the rows that it was about."""


class PostgresTools(Frozen):
    """The programs wait for ever for a host that accepts and sends nothing. So they get one host, which has just let us in by the rules of
    a server's own connections, a `connect_timeout`, and a deadline until which they have to be connected.
    """

    folder: Path
    major: int

    @classmethod
    async def find(cls, *, embedded: bool, server_version: int) -> "PostgresTools":
        """The programs for a server of this version, in libpq's form (180001 is 18.1). Raises `ToolsUnusable`."""
        folder = BINARIES if embedded else _on_path()
        if folder is None or not (folder / "pg_dump").exists() or not (folder / "pg_restore").exists():
            raise ToolsUnusable("pg_dump and pg_restore are missing: install PostgreSQL's client programs, and put them on the PATH")
        done = await trio.run_process([str(folder / "pg_dump"), "--version"], capture_stdout=True, env=_environment())
        found = _VERSION.search(done.stdout.decode(errors="replace"))
        major = int(found[1]) if found is not None else 0
        if major < server_version // 10_000:
            raise ToolsUnusable(
                f"{folder / 'pg_dump'} is of version {major}, and the server of version {server_version // 10_000}: "
                "install client programs that are at least as new as the server"
            )
        return cls(folder, major)

    def require_restoring_into(self, server_version: int) -> None:
        """From version 17 on, pg_restore sets what earlier servers do not know. Raises `ToolsUnusable`."""
        server = server_version // 10_000
        if self.major >= _NEW_SETTING > server:
            raise ToolsUnusable(
                f"{self.folder / 'pg_restore'} is of version {self.major}, which cannot restore into a server of version {server}: "
                "put the programs of the server's version first on the PATH"
            )

    async def dump(self, conninfo: str, snapshot: str, file: Path) -> None:
        """Writes what the exported snapshot contains, compressed, into a new file that only its owner may read. Raises `ToolFailed`."""
        options = [
            *_OPTIONS,
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            "--no-unlogged-table-data",
            f"--snapshot={snapshot}",
            f"--file={file}",
        ]
        await self._run("pg_dump", options, conninfo)

    async def read_all(self, conninfo: str) -> None:
        """Reads every row of the database and keeps none, so that a page that cannot be read is found. Raises `ToolFailed`."""
        await self._run("pg_dump", [*_OPTIONS, "--format=plain", "--data-only", f"--file={os.devnull}"], conninfo)

    async def restore(self, conninfo: str, file: Path, *, leave_mark_out: bool = False) -> None:
        """Restores the dump in one transaction: all of it or nothing. With `leave_mark_out`, the rows of `schema_migrations` are left
        out, until `restore_mark`. Raises `ToolFailed`.
        """
        options = [*_OPTIONS, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
        async with await Connection.connect(conninfo) as connection:
            has_parts = await (await connection.execute(_HAS_PARTS)).fetchone() == (True,)
        left_out = [*([_MARK_DATA] if leave_mark_out else []), *([_PARTS] if has_parts else [])]
        text = await self._contents(file)
        for entries in left_out:
            text = entries.sub(lambda entry: f";{entry[0]}", text)
        with _list_of(text, file) as contents:
            await self._run("pg_restore", [*options, f"--use-list={contents}", str(file)], conninfo)

    async def restore_mark(self, conninfo: str, file: Path) -> None:
        options = [*_OPTIONS, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
        await self._run("pg_restore", [*options, "--data-only", f"--table={MARK}", str(file)], conninfo)

    async def _contents(self, file: Path) -> str:
        return (await self._run("pg_restore", ["--list", str(file)], None)).decode(errors="replace")

    async def _run(self, program: str, options: Sequence[str], conninfo: str | None) -> bytes:
        try:
            one = None if conninfo is None else await _with_one_host(conninfo)
        except psycopg.Error as error:
            raise ToolFailed(f"{program}: {' '.join(str(error).split())}") from None
        run = _Run(program, connects=one is not None)
        with _service(one) as (target, environment):
            command = [str(self.folder / program), *target, *options]
            async with trio.open_nursery() as nursery:
                process = await nursery.start(
                    partial(
                        trio.run_process,
                        command,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        check=False,
                        env={**_environment(), **environment},
                        umask=0o077,
                    )
                )
                nursery.start_soon(run.keep_to_the_deadline, process)
                nursery.start_soon(run.listen, process.stderr)
                await run.read(process.stdout)
        if process.returncode != 0:
            raise ToolFailed(run.reason())
        return run.output


class _Run:
    """One run of a program, and what it has said."""

    def __init__(self, program: str, *, connects: bool) -> None:
        self.output = b""
        self._program = program
        self._said = b""
        self._too_late = False
        self._works = trio.Event()
        if not connects:
            self._works.set()

    async def keep_to_the_deadline(self, process: trio.Process) -> None:
        with trio.move_on_after(START):
            await self._works.wait()
            return
        self._too_late = True
        process.kill()

    async def listen(self, stream: trio.abc.ReceiveStream) -> None:
        async for some in stream:
            self._said += some
            if not self._works.is_set() and any(_STILL_CONNECTING not in line for line in self._said.split(b"\n")[:-1]):
                self._works.set()
        self._works.set()

    async def read(self, stream: trio.abc.ReceiveStream) -> None:
        async for some in stream:
            self.output += some

    def reason(self) -> str:
        """The first line that tells an error. The lines after it may quote rows."""
        if self._too_late:
            return f"{self._program}: it had no connection to the database within {START:g} s"
        lines = self._said.decode(errors="replace").splitlines()
        told = next((line for line in lines if "error:" in line.lower()), lines[-1] if lines else "it said nothing")
        reason = _VALUE.sub("", told.partition("error: ")[2] or told)
        return f"{self._program}: {reason[:_LONGEST_REASON].strip()}"


async def _with_one_host(conninfo: str) -> str:
    """The address with the one host that lets us in, by the rules of a server's own connections. Raises the driver's errors."""
    given = conninfo_to_dict(conninfo)
    connection = await Connection.connect(conninfo)
    try:
        reached = connection.pgconn
        return make_conninfo(
            "",
            **{
                **given,
                "host": reached.host.decode(),
                "hostaddr": reached.hostaddr.decode() or None,
                "port": reached.port.decode(),
                "connect_timeout": given.get("connect_timeout") or int(HOST_PATIENCE),
            },
        )
    finally:
        with trio.CancelScope(shield=True):
            await connection.close()


class _list_of:  # noqa: N801 - a context manager that is called like a function
    """A file beside the dump with the contents that are to be restored."""

    def __init__(self, text: str, beside: Path) -> None:
        self._text = text
        self._folder = tempfile.TemporaryDirectory(prefix="postern-contents-")
        self._name = beside.name

    def __enter__(self) -> Path:
        path = Path(self._folder.name) / f"{self._name}.list"
        path.write_text(self._text, encoding="utf-8")
        return path

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class _service:  # noqa: N801 - a context manager that is called like a function
    """The address for a program, in a file and a variable. Every user of the machine may read a program's arguments."""

    def __init__(self, conninfo: str | None) -> None:
        self._conninfo = conninfo
        self._folder = tempfile.TemporaryDirectory(prefix="postern-service-")

    def __enter__(self) -> tuple[Sequence[str], Mapping[str, str]]:
        if self._conninfo is None:
            return (), {}
        parameters = {name: str(value) for name, value in conninfo_to_dict(self._conninfo).items() if value is not None}
        environment = {"PGPASSWORD": password} if (password := parameters.pop("password", None)) is not None else {}
        path = Path(self._folder.name) / "pg_service"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - has no mode
            file.write("[postern]\n" + "".join(_lines(parameters)))
        return ("--dbname=service=postern",), {"PGSERVICEFILE": str(path), **environment}

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._folder.cleanup()


def _lines(parameters: Mapping[str, str]) -> Iterable[str]:
    for name, value in parameters.items():
        if "\n" in value:
            raise ToolsUnusable(f"The database address cannot be used: its {name} contains the end of a line")
        yield f"{name}={value}\n"


def _on_path() -> Path | None:
    found = shutil.which("pg_dump")
    if found is not None:
        return Path(found).parent
    return BINARIES if (BINARIES / "pg_dump").exists() else None


def _environment() -> dict[str, str]:
    """The environment without Postern's settings: the programs must not see the encryption keys. Their words must be those that we know."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}, "LC_ALL": "C"}
