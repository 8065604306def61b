"""One backup for all tests of this folder, and the programs that fit the server of the tests."""

from collections.abc import Iterator

import pytest
import trio

from adapters.postgres.backups.snapshots import server_version
from tests.conftest import fresh_database
from tests.entrypoints.backups.installation import BackedUp, backed_up, with_programs_of


@pytest.fixture(scope="package")
def backup(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackedUp]:
    """Ends with the folder: tests after it on the same worker look for the machine's own programs."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for url in fresh_database(f"backed_up_{worker_id}"):
            with_programs_of(trio.run(server_version, url), monkeypatch)
            with backed_up(url, tmp_path_factory.mktemp("backed_up")) as made:
                yield made
