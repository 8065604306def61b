"""Postern as the sender, and the database of a second installation."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conftest import fresh_database
from tests.http import conftest as http
from tests.remote_systems.other_servers import OtherRemoteSystem, RemotePostern, another_authors_server, another_postern

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
patient_with_keys = http.patient_with_keys


@pytest.fixture
def remote_database_url(worker_id: str) -> Iterator[str]:
    yield from fresh_database(f"far_{worker_id}")


@pytest.fixture
async def remote_postern(remote_database_url: str, tmp_path: Path) -> AsyncIterator[RemotePostern]:
    (tmp_path / "far").mkdir()
    async with another_postern(remote_database_url, tmp_path / "far") as opened:
        yield opened


@pytest.fixture(scope="module")
def others() -> Iterator[OtherRemoteSystem]:
    with another_authors_server() as remote_system:
        yield remote_system
