"""Debian's PostgreSQL for the tests that always run on it."""

from collections.abc import Iterator

import pytest

from tests.adapters.postgres.oldest.server import OldServer, old_server


@pytest.fixture(scope="session")
def oldest() -> Iterator[OldServer]:
    with old_server() as server:
        yield server
