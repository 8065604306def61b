"""The template database of a test run, in the end state, and copies of databases."""

from typing import Any, Final

import psycopg
import trio

from adapters.postgres.migrate import migrate

# Before, PostgreSQL always copied the files, and did not know the words.
_FIRST_WITH_STRATEGIES: Final = 15_00_00


def migrate_template(url: str) -> None:
    def report(_: str) -> None: ...

    trio.run(migrate, url, report)


def make_copy(connection: psycopg.Connection[Any], name: str, template: str) -> None:
    """Copies the files, which is quicker than writing all pages into the log."""
    strategy = " strategy file_copy" if connection.info.server_version >= _FIRST_WITH_STRATEGIES else ""
    connection.execute(f"create database {name} template {template}{strategy}".encode())
