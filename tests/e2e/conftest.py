"""Data directories and servers for the end-to-end tests."""

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.postern import Postern, copy, remove

_copies = count(1)


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation after its first start, stopped. `printed` is what that start wrote on standard output, `logged` its log."""

    data_dir: Path
    printed: str
    logged: str

    @property
    def owner_password(self) -> str:
        """The password that the first start printed."""
        found = re.search(r"Password +(\S+)", self.printed)
        assert found is not None
        return found[1]

    def copy(self, directory: Path, name: str) -> Path:
        """A data directory of its own for each caller."""
        return copy(self.data_dir, directory / f"{name}{next(_copies)}")


@pytest.fixture(scope="session")
def e2e_directory() -> Iterator[Path]:
    # A directory of our own: pytest's is closed to other users, and PostgreSQL under root runs as another user.
    directory = Path(tempfile.mkdtemp(prefix="postern-e2e-"))
    yield directory
    remove(directory)


@pytest.fixture(scope="session")
def installation(e2e_directory: Path) -> Installation:
    server = Postern(e2e_directory / "data")
    server.start()
    assert server.stop() == 0
    server.close()
    return Installation(server.data_dir, server.out.read_text(), server.err.read_text())


@pytest.fixture
def serve(installation: Installation) -> Iterator[Callable[..., Postern]]:
    """Makes a `postern serve` and waits until it is ready, unless told not to. All tests use the same data, one after the other: whatever a
    test does to the server, the next one must find it whole.
    """
    made: list[Postern] = []

    def start(*arguments: str, data_dir: Path | None = None, wait: bool = True, **settings: str) -> Postern:
        server = Postern(data_dir if data_dir is not None else installation.data_dir, arguments, settings)
        made.append(server)
        server.start(wait=wait)
        return server

    yield start
    for server in reversed(made):
        server.close()


@pytest.fixture(scope="module")
def running(e2e_directory: Path, installation: Installation, request: pytest.FixtureRequest) -> Iterator[Postern]:
    """A server on data of its own, for tests of one module that add only rows of their own names.

    A worker that takes over tests of another worker may come back to a module. The server then starts on a new copy, not on the data that
    the module's earlier tests have filled.
    """
    server = Postern(installation.copy(e2e_directory, request.module.__name__.rpartition(".")[2]))
    server.start()
    yield server
    assert server.stop() == 0
    server.close()
