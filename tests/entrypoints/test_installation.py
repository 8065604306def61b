"""What an installation says when its database cannot be used."""

import pytest

from entrypoints.failures import StartFailed
from entrypoints.installation import running_database
from entrypoints.settings import read

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
