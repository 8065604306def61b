"""Databases that are copies of others."""

from typing import Any, Final

import psycopg

# Before, PostgreSQL always copied the files, and did not know the words.
_FIRST_WITH_STRATEGIES: Final = 15_00_00


def make_copy(connection: psycopg.Connection[Any], name: str, template: str) -> None:
    """Copies the files, which is quicker than writing all pages into the log."""
    strategy = " strategy file_copy" if connection.info.server_version >= _FIRST_WITH_STRATEGIES else ""
    connection.execute(f"create database {name} template {template}{strategy}".encode())
