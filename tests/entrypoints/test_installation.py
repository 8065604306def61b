"""The messages of an installation whose database cannot be used."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from entrypoints import installation
from entrypoints.checks import Verdict, data_directory
from entrypoints.failures import StartFailed
from entrypoints.installation import require_installation, running_database
from entrypoints.settings import read
from tests.conftest import CapturedLog
from tests.places import open_directory

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:hun%zzter2@127.0.0.1:1/db", "postgresql://me:my hunter2@127.0.0.1:1/db?x=y", "host=127.0.0.1 password=my hunter2"],
)
async def test_a_malformed_database_url_is_refused_without_being_quoted(url: str) -> None:
    settings = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY})
    with pytest.raises(StartFailed, match="POSTERN_DATABASE_URL cannot be used: ") as caught:
        async with running_database(settings):
            pass
    assert "hun" not in str(caught.value)


async def test_a_start_that_has_made_nothing_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    """As root, the first start makes a system user first, which may take long."""

    def start(_server: EmbeddedPostgres) -> None:
        time.sleep(0.2)
        raise EmbeddedPostgresError("No user could be made")

    monkeypatch.setattr(EmbeddedPostgres, "start", start)
    monkeypatch.setattr(installation, "_SAID_EVERY", 0.05)
    with pytest.raises(StartFailed, match="No user could be made"):
        async with running_database(read({"POSTERN_DATA_DIR": str(tmp_path / "new" / "place")})):
            pass
    assert log.events("embedded_postgres_starting")[0]["free_mib"] > 0


@pytest.fixture
def closed() -> Iterator[Path]:
    """A directory that only its owner may read, in a directory that others may pass through."""
    with open_directory() as around:
        around.chmod(0o711)
        directory = around / "closed"
        directory.mkdir()
        try:
            yield directory
        finally:
            directory.chmod(0o700)


@contextmanager
def another_user(closed: Path) -> Iterator[None]:
    """Makes the test run as a user who may not read the directory. Root may read everything; for others mode 0 is enough."""
    closed.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_data_directory_of_somebody_else_is_called_that(closed: Path) -> None:
    """Another user cannot tell whether an installation is there, so neither "There is none" nor a stack trace would help."""
    settings = read({"POSTERN_DATA_DIR": str(closed)})
    with another_user(closed), pytest.raises(StartFailed, match=r"Permission denied .+; run this as the user who runs Postern"):
        require_installation(settings)


def test_the_doctor_says_that_a_directory_for_mails_is_somebody_elses(closed: Path) -> None:
    url = "postgresql://127.0.0.1/db"
    settings = read({"POSTERN_DATA_DIR": str(closed / "data"), "POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY})
    with another_user(closed):
        found = data_directory(settings)
    assert (found.verdict, found.text) == (Verdict.FAIL, f"{closed} cannot be written to: Permission denied")
