"""What an installation says when its database cannot be used."""

import time
from pathlib import Path

import pytest

from adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from entrypoints import installation
from entrypoints.failures import StartFailed
from entrypoints.installation import running_database
from entrypoints.settings import read
from tests.conftest import CapturedLog

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
    """As root it makes a system user first, which may take long."""

    def start(_server: EmbeddedPostgres) -> None:
        time.sleep(0.2)
        raise EmbeddedPostgresError("No user could be made")

    monkeypatch.setattr(EmbeddedPostgres, "start", start)
    monkeypatch.setattr(installation, "_TOLD_EVERY", 0.05)
    with pytest.raises(StartFailed, match="No user could be made"):
        async with running_database(read({"POSTERN_DATA_DIR": str(tmp_path / "new" / "place")})):
            pass
    assert log.events("embedded_postgres_starting")[0]["free_mib"] > 0
