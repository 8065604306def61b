"""A PgBouncer before a server of the tests."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops.free_ports import free_port
from tests.patience import PATIENCE

PROGRAM: Final = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"


class PgBouncer:
    """`async with PgBouncer(database_url, mode="transaction") as pooler:`, then connect to `pooler.url`."""

    def __init__(self, url: str, *, mode: str, size: int = 20) -> None:
        self._server = conninfo_to_dict(url)
        self._mode = mode
        self._size = size
        self._port = free_port()
        self._directory = tempfile.TemporaryDirectory(prefix="postern-pgbouncer-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return make_conninfo(
            "",
            host="127.0.0.1",
            port=self._port,
            user=str(self._server.get("user") or "postgres"),
            dbname=str(self._server["dbname"]),
            sslmode="disable",
            gssencmode="disable",
        )

    def switch(self, mode: str) -> None:
        """The mode of connections from now on, as after an operator's `reload`."""
        self._mode = mode
        self._write()

    async def __aenter__(self) -> Self:
        self._write()
        await self._start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stop()
        self._directory.cleanup()

    async def restart(self) -> None:
        await self._stop()
        await self._start()

    async def _start(self) -> None:
        command = [PROGRAM, "-q", str(self._file)]
        if os.geteuid() == 0:
            # It refuses to be root, and only the owner of the server's socket may enter its directory. A port is everybody's.
            host = Path(str(self._server["host"]))
            command[1:1] = ["-u", pwd.getpwuid(host.stat().st_uid).pw_name if host.is_dir() else "nobody"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", self._port)).aclose()
                except OSError:
                    await trio.sleep(0.02)
                else:
                    return

    async def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            await trio.to_thread.run_sync(self._process.wait)

    @property
    def _file(self) -> Path:
        return Path(self._directory.name) / "pgbouncer.ini"

    def _write(self) -> None:
        server = " ".join(f"{name}={self._server[name]}" for name in ("host", "port", "user", "password") if self._server.get(name))
        self._file.write_text(
            f"[databases]\n* = {server}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self._port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = {self._mode}\ndefault_pool_size = {self._size}\nmax_client_conn = 200\n"
            "ignore_startup_parameters = extra_float_digits\nlogfile =\n",
            encoding="utf-8",
        )
        Path(self._directory.name).chmod(0o755)
        self._file.chmod(0o644)
