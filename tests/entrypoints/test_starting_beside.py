"""What a start does while its embedded database starts, and that a failure there leaves no server behind."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from adapters.crypto.key_pairs import PairsAhead
from adapters.postgres.embedded import EmbeddedPostgres
from core.domain.tokens import KeyPurpose
from entrypoints.installation import running_database
from entrypoints.settings import Settings, read

_PATIENCE: Final = 60.0


@pytest.fixture
def settings() -> Iterator[Settings]:
    # Not under pytest's own directory: pytest closes that one to other users, and root's PostgreSQL runs as one.
    with tempfile.TemporaryDirectory(prefix="postern-beside-") as name:
        Path(name).chmod(0o711)
        yield read({"POSTERN_DATA_DIR": str(Path(name) / "data")})


async def test_the_rest_is_loaded_while_a_new_database_is_made(settings: Settings) -> None:
    server = EmbeddedPostgres(settings.data_dir)
    begun: list[bool] = []
    threads: list[bool] = []

    def meanwhile() -> None:
        # It holds the event loop up until the thread that starts the database has the data directory.
        deadline = time.monotonic() + _PATIENCE
        while not server.is_owned() and time.monotonic() < deadline:
            time.sleep(0.01)
        begun.append(server.is_owned())

    def of_new() -> None:
        threads.append(threading.current_thread() is not threading.main_thread())

    async with running_database(settings, meanwhile=meanwhile, of_new=of_new):
        assert (begun, threads) == ([True], [True])
        assert server.exists()
    begun.clear()
    threads.clear()
    async with running_database(settings, meanwhile=meanwhile, of_new=of_new):
        assert (begun, threads) == ([True], [])


async def test_a_failure_of_the_rest_stops_the_server(settings: Settings) -> None:
    server = EmbeddedPostgres(settings.data_dir)

    def fails() -> None:
        # Late: the thread that has started the database does not hear of it any more.
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                psycopg.connect(server.application_url).close()
                break
            time.sleep(0.01)
        raise RuntimeError("a module is missing")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="a module is missing"), flatten_subgroups=True):
        async with running_database(settings, meanwhile=fails):
            pytest.fail("it runs")
    assert not server.is_owned()
    assert not (server.cluster / "data" / "postmaster.pid").exists()
    async with running_database(settings):
        assert server.is_owned()


def test_a_pair_that_was_made_ahead_is_handed_out_once() -> None:
    ahead = PairsAhead()
    ahead.make()
    rsa = [one for one in KeyPurpose if one.algorithm == "RS256"]
    made = list(ahead._made)
    assert len(made) == 2 * len(rsa)
    taken = [ahead.take(purpose) for purpose in rsa for _ in range(3)]
    assert {id(one) for one in made} <= {id(one) for one in taken}
    numbers = [one.private_numbers() for one in taken]
    assert len({str(one.public_numbers) for one in numbers}) == len(taken)
    assert {one.key_size for one in taken} == {2048}
    assert ahead.take(KeyPurpose.ACCESS).key_size == 256
