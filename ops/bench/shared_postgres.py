"""One PostgreSQL over TCP for the servers of a comparison. Each server has its own database and role, so its backends count separately."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from adapters.postgres.embedded import EmbeddedPostgres
from ops.bench import processes
from ops.free_ports import free_port

# The roles have passwords, because any user of the machine can reach the port. A password costs time once a connection.
_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class SharedPostgres:
    """The embedded server with its usual settings, and a port."""

    def __init__(self, server: EmbeddedPostgres, port: int) -> None:
        self._server = server
        self.port = port

    def create(self, name: str) -> str:
        """Makes an empty database. Returns the URL for its owner."""
        password = secrets.token_urlsafe(16)
        with self._connected() as connection:
            connection.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(name), sql.Literal(password)))
            # Whoever fills the database lets no trigger run (`ops.bench.filling.fill`).
            connection.execute(sql.SQL("grant set on parameter session_replication_role to {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(name)))
        return f"postgresql://{name}:{password}@127.0.0.1:{self.port}/{name}"

    def settle(self) -> None:
        """Writes the rows to disk now, so that PostgreSQL does not write them during a measurement."""
        with self._connected() as connection:
            connection.execute("checkpoint")

    def cpu(self, name: str) -> Mapping[int, float]:
        """The processor time so far of each backend of this database."""
        with self._connected() as connection:
            rows = connection.execute(
                "select pid from pg_stat_activity where datname = %s and backend_type = 'client backend'", [name]
            ).fetchall()
        return processes.thread_seconds(pid for (pid,) in rows)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[int]]]:
        url = self._server.url("postgres").replace("port=5432", f"port={self.port}")
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


@contextmanager
def shared_postgres(data_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[SharedPostgres]:
    """The data are in that directory. The caller removes it."""
    place = data_dir / "server"
    with EmbeddedPostgres(place) as closed:
        access = closed.cluster / "data" / "pg_hba.conf"
        access.write_text(_ACCESS)
    port = free_port()
    with EmbeddedPostgres(place, {"listen_addresses": "127.0.0.1", "port": str(port), **(settings or {})}) as server:
        yield SharedPostgres(server, port)
