"""One full organization for all tests of a worker, and its file; and an empty installation for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.crypto.recipients import RecipientSecrets
from core.domain.platform.moving import DepartedOrganization
from core.frozen import Frozen
from tests.conftest import fresh_database
from tests.entrypoints.moving.installations import HERE, THERE, MovingPlace, copied, fill_source, settings_for
from tests.places import open_directory


class Moving(Frozen):
    """The organization's installation, which no test changes, and the file that it has exported for `here`."""

    there: MovingPlace
    file: Path
    departed: DepartedOrganization
    secrets: RecipientSecrets
    """The private halves of `here`. A hostile file needs a public half alone."""


@pytest.fixture(scope="session")
def receiving(worker_id: str) -> Iterator[MovingPlace]:
    """An installation that has made its receiving key and has nothing else, for copies."""
    for url in fresh_database(f"receiving_{worker_id}"):
        with open_directory() as directory:
            here = MovingPlace(settings_for(url, directory, HERE, "new.example.org"), url, HERE)
            here.receiving_key()
            yield here


@pytest.fixture(scope="session")
def moving(worker_id: str, receiving: MovingPlace) -> Iterator[Moving]:
    for url in fresh_database(f"moving_{worker_id}"):
        with open_directory() as directory:
            there = MovingPlace(settings_for(url, directory, THERE, "old.example.org"), url, THERE)
            fill_source(there)
            file = directory / "acme.postern"
            yield Moving(there, file, there.export(file, receiving.receiving_key()), receiving.receiving_secrets())


@pytest.fixture
def here(worker_id: str, receiving: MovingPlace, tmp_path: Path) -> Iterator[MovingPlace]:
    with copied(receiving.url, f"here_{worker_id}") as url:
        yield MovingPlace(settings_for(url, tmp_path, HERE, "new.example.org"), url, HERE)
