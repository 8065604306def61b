"""One backup for all tests of this folder, and the programs that fit the server of the tests."""

import os
from collections.abc import Iterator

import pytest
import trio

from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.embedded import BINARIES, MAJOR_VERSION
from tests.conftest import fresh_database
from tests.entrypoints.backups.installation import BackedUp, backed_up


@pytest.fixture(scope="session")
def backup(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackedUp]:
    before = os.environ["PATH"]
    for url in fresh_database(f"backed_up_{worker_id}"):
        if trio.run(server_version, url) // 10_000 == int(MAJOR_VERSION):
            # The machine's own programs may be older than the embedded server.
            os.environ["PATH"] = f"{BINARIES}:{before}"
        with backed_up(url, tmp_path_factory.mktemp("backed_up")) as made:
            yield made
    os.environ["PATH"] = before
