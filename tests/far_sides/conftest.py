"""Postern as the sender, and the database of a second installation."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conftest import fresh_database
from tests.far_sides.other_servers import FarPostern, OtherFarSide, another_authors_server, another_postern
from tests.http import conftest as http

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
patient_with_keys = http.patient_with_keys


@pytest.fixture
def far_database_url(worker_id: str) -> Iterator[str]:
    yield from fresh_database(f"far_{worker_id}")


@pytest.fixture
async def far_postern(far_database_url: str, tmp_path: Path) -> AsyncIterator[FarPostern]:
    (tmp_path / "far").mkdir()
    async with another_postern(far_database_url, tmp_path / "far") as opened:
        yield opened


@pytest.fixture(scope="module")
def others() -> Iterator[OtherFarSide]:
    with another_authors_server() as far_side:
        yield far_side
