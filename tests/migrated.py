"""Brings the template database of a test run to the end state."""

import psycopg

from tests.places import MIGRATIONS


def migrate_template(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for file in sorted(MIGRATIONS.glob("*.sql")):
            connection.execute(file.read_text())
