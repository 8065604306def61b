"""Writes adapters/postgres/migrations/effects.toml: what each migration does to tables that are there, as PostgreSQL itself shows it.

    .venv/bin/python -m ops.written.migration_effects

Run it after you have written a migration.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import EFFECTS, Migration, migrate, remember, shipped
from adapters.postgres.migrating.forecast import Effect, written_effects
from adapters.postgres.migrating.observation import observed

FILE: Final = Path(__file__).resolve().parents[2] / "adapters" / "postgres" / "migrations" / EFFECTS


async def effects_of(url: str, migrations: Sequence[Migration]) -> Mapping[str, Sequence[Effect]]:
    """Applies the migrations to an empty database, one after the other."""
    found = {}
    for number, migration in enumerate(migrations, start=1):
        if migration.steps:
            await migrate(url, lambda _line: None, migrations[:number])
            continue
        async with await Connection.connect(url) as connection:
            effects = await observed(connection, migration.sql)
            await remember(connection, migration)
        if effects:
            found[str(migration)] = effects
    return found


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="postern-effects-") as directory:
        Path(directory).chmod(0o711)
        with EmbeddedPostgres(Path(directory) / "data", settings={"fsync": "off"}) as server:
            server.prepare_application()
            FILE.write_text(written_effects(trio.run(effects_of, server.application_url, shipped())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
