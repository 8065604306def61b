"""The processes that serve a database, as its server lists them."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, LiteralString

from psycopg.rows import kwargs_row

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import APPLICATION_NAME
from core.frozen import Frozen

LISTENS: Final[LiteralString] = (
    "datname = current_database() and (application_name = %(listener)s or starts_with(application_name, %(listener)s || ' '))"
)
"""The condition of a row of `pg_stat_activity`."""
NAME: Final = {"listener": APPLICATION_NAME}
"""The parameter of the condition."""

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_NAME: Final = re.compile(rf"{APPLICATION_NAME}(?: (?P<version>[\w.+!-]+))?(?: (?P<migration>\d{{4}}))?")


def name_of_listener(version: str) -> str:
    """The name under which a process of this program listens.

    Each serving process listens on one connection, and names it for the version of its program and the newest migration that the program
    carries: `postern listener 0.2.0 0005`. Older programs leave out the migration, or both.
    """
    return f"{APPLICATION_NAME} {version} {newest_migration():04}"


def newest_migration() -> int:
    """The number of the newest migration that this program carries."""
    return max((int(file.name[:4]) for file in _MIGRATIONS.glob("*.sql")), default=0)


def version_in(name: str) -> str:
    """The version in the name of a listener. Empty without one."""
    match = _NAME.fullmatch(name)
    return (match["version"] or "") if match is not None else ""


class ListeningProcess(Frozen):
    """A process that serves. `migration` is the newest that its program carries, and None if the name does not tell; `host` and `since` are
    None if our role may not see them, and `host` is empty for a socket of the machine.
    """

    version: str
    migration: int | None
    host: str | None
    since: datetime | None

    def runs_beside(self, number: int, needs: int | None) -> bool:
        """Whether it may go on running once this migration is applied. Nobody knows what a process without a number carries."""
        carried = self.migration or 0
        return number <= carried or (needs is not None and needs <= carried)

    def __str__(self) -> str:
        what = "an unknown migration" if self.migration is None else f"{self.migration:04}"
        version = f" ({self.version})" if self.version else ""
        host = "" if self.host is None else f" on {self.host or 'this machine'}"
        since = "" if self.since is None else f" since {self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"{what}{version}{host}{since}"


async def listening_processes(connection: Connection) -> Sequence[ListeningProcess]:
    """All of them, the oldest program first.

    Every role sees the names. Only the role of the connection, a superuser or a member of `pg_read_all_stats` sees the host and the time.
    """
    cursor = connection.cursor(row_factory=kwargs_row(_process))
    found = await (await cursor.execute(_LISTENING, NAME)).fetchall()
    return sorted(found, key=lambda one: -1 if one.migration is None else one.migration)


def _process(name: str, **others: Any) -> ListeningProcess:
    match = _NAME.fullmatch(name)
    number = None if match is None or match["migration"] is None else int(match["migration"])
    return ListeningProcess(version=version_in(name), migration=number, **others)


# Whoever may not see the beginning of a connection may not see where it comes from.
_LISTENING: Final = f"""
    select application_name as name, backend_start as since,
           case when backend_start is not null then coalesce(host(client_addr), '') end as host
      from pg_stat_activity
     where {LISTENS}
     order by backend_start nulls last, pid
"""
