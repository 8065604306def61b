"""One PostgreSQL over TCP for servers that are compared: each has a database and a role of its own, and its backends are counted
separately.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from adapters.postgres.embedded import EmbeddedPostgres
from ops.bench import processes
from ops.bench.harness import free_port

# Passwords, since any user of the machine can reach the port. They cost once a connection.
_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class SharedPostgres:
    """The embedded server with its usual settings, and a port."""

    def __init__(self, server: EmbeddedPostgres, port: int) -> None:
        self._server = server
        self._port = port

    def create(self, name: str) -> str:
        """Makes an empty database. Returns the URL for its owner."""
        password = secrets.token_urlsafe(16)
        with self._connected() as connection:
            connection.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(name), sql.Literal(password)))
            connection.execute(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(name)))
        return f"postgresql://{name}:{password}@127.0.0.1:{self._port}/{name}"

    def settle(self) -> None:
        """Write the filled-in rows to disk now, and not while others are measured."""
        with self._connected() as connection:
            connection.execute("checkpoint")

    def cpu(self, name: str) -> Mapping[int, float]:
        """Processor time so far of each backend that serves this database."""
        with self._connected() as connection:
            rows = connection.execute(
                "select pid from pg_stat_activity where datname = %s and backend_type = 'client backend'", [name]
            ).fetchall()
        return processes.thread_seconds(pid for (pid,) in rows)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[int]]]:
        url = self._server.url("postgres").replace("port=5432", f"port={self._port}")
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


@contextmanager
def shared_postgres(data_dir: Path) -> Iterator[SharedPostgres]:
    """Its data are in that directory; the caller removes it."""
    place = data_dir / "server"
    with EmbeddedPostgres(place) as closed:
        access = closed.cluster / "data" / "pg_hba.conf"
        access.write_text(_ACCESS)
    port = free_port()
    with EmbeddedPostgres(place, {"listen_addresses": "127.0.0.1", "port": str(port)}) as server:
        yield SharedPostgres(server, port)
