"""The two installations, each with its own database on one PostgreSQL."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import trio

from core.usecases.record import CHAIN_KEY
from ops.bench.filling.fill_tenancy import Size, Tenant, grow_tenancy, tenants_of
from ops.bench.harness import Server, serving, settings_for
from ops.bench.inside import hashed, postern_of
from ops.bench.report import Figure, complain
from ops.bench.shared_postgres import SharedPostgres, shared_postgres

PASSWORD: Final = "a password of ordinary length"  # noqa: S105 - of people made up
# Hashing costs the same in both, so it may as well cost little.
_SETTINGS: Final[Mapping[str, str]] = {"POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_PASSES": "1"}
# While the rows are made, nobody needs them to survive a fall of the machine.
_FILLING: Final[Mapping[str, str]] = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "shared_buffers": "2GB",
    "work_mem": "1GB",
    "autovacuum": "off",
}
_SERVING: Final[Mapping[str, str]] = {"shared_buffers": "2GB", "max_wal_size": "4GB"}


@dataclass(frozen=True, slots=True)
class Twin:
    """An installation that is not served yet."""

    size: Size
    place: Path
    database_url: str = field(repr=False)
    postgres: SharedPostgres

    @property
    def called(self) -> str:
        return f"{self.size.organizations} organizations"

    @property
    def settings(self) -> Mapping[str, str]:
        """For commands beside the server."""
        return settings_for(self.place, "127.0.0.1:0", self.database_url)

    @property
    def tenants(self) -> Sequence[Tenant]:
        return tenants_of(self.database_url, self.size)

    @asynccontextmanager
    async def served(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[Server]:
        together = {**_SETTINGS, **(settings or {})}
        async with serving(self.place, database_url=self.database_url, settings=together, patience=600) as server:
            yield server


async def fill_both(place: Path, sizes: Sequence[Size]) -> Sequence[Figure]:
    """Fills the installations that are not there yet."""
    await trio.Path(place).mkdir(parents=True, exist_ok=True)
    missing = [size for size in sizes if not _told(place, size).exists()]
    if not missing:
        return []
    figures: list[Figure] = []
    with shared_postgres(place, _FILLING) as postgres:
        for size in missing:
            complain(f"{size.organizations} organizations: filling …")
            began = perf_counter()
            url = postgres.create(_name(size))
            await _fill(Twin(size, _home(place, size), url, postgres))
            _told(place, size).touch(mode=0o600)
            _told(place, size).write_text(url)
            figures += await trio.to_thread.run_sync(_sizes, url, size)
            figures.append(Figure(f"{size.organizations} organizations: filling took", perf_counter() - began, "s"))
    # PostgreSQL left the writing to the system.
    await trio.to_thread.run_sync(os.sync)
    return figures


@asynccontextmanager
async def open_both(place: Path, sizes: Sequence[Size]) -> AsyncIterator[Sequence[Twin]]:
    with shared_postgres(place, _SERVING) as postgres:
        yield [Twin(size, _home(place, size), _moved(_told(place, size).read_text(), postgres.port), postgres) for size in sizes]


async def _fill(twin: Twin) -> None:
    twin.place.mkdir(mode=0o700)
    # The server makes the tables and the keys.
    async with twin.served() as server:
        settings = server.settings
    async with postern_of(settings) as postern:
        key = await postern.foundation.server_secrets.get(CHAIN_KEY)
    encoded = await hashed(settings, PASSWORD)
    tenants = await trio.to_thread.run_sync(grow_tenancy, twin.database_url, twin.size, "tenant", key)
    with psycopg.connect(twin.database_url, autocommit=True) as connection:
        owners = [one.owner.user for one in tenants]
        connection.execute("update users set password_hash = %s where id = any (%s)", [encoded, owners])
        connection.execute("update users set is_platform_owner = true where id = %s", [owners[0]])
        connection.execute("vacuum analyze users")


def _sizes(database_url: str, size: Size) -> Sequence[Figure]:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(_SIZES).fetchall()
    return [Figure(f"{size.organizations} organizations: {name}", value, unit) for name, value, unit in rows]


_SIZES: Final = """
    select 'database', pg_database_size(current_database()) / 2 ^ 30, 'GiB'
     union all
    select relname, coalesce(parts.tuples, tables.reltuples), 'rows'
      from pg_class as tables,
   lateral (select sum(reltuples) as tuples from pg_partition_tree(tables.oid) join pg_class on oid = relid where isleaf) as parts
     where oid = any ('{all_organizations,users,login_events,audit_entries}'::regclass[])
"""


def _name(size: Size) -> str:
    return f"of{size.organizations}"


def _home(place: Path, size: Size) -> Path:
    return place / _name(size)


def _told(place: Path, size: Size) -> Path:
    """Where the address of its database is, once it is filled."""
    return place / f"{_name(size)}.url"


def _moved(url: str, port: int) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}"))
