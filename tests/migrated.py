"""Brings the template database of a test run to the end state."""

import trio

from adapters.postgres.migrate import migrate


def migrate_template(url: str) -> None:
    def report(_: str) -> None: ...

    trio.run(migrate, url, report)
