"""The text that a start prints for the person who started it."""

import io
import re
from pathlib import Path

import pytest

from core.domain.secrets import Password, Secret
from entrypoints.bootstrap import open_postern
from entrypoints.failures import StartFailed
from entrypoints.first_start import FirstOwner, announce, complete
from entrypoints.settings import Settings, read


def _announced(owner: FirstOwner | None, settings: Settings) -> str:
    out = io.StringIO()
    announce(settings, owner, out)
    return out.getvalue()


def test_any_start_but_the_first_is_one_line() -> None:
    assert _announced(None, read({})) == "Postern is ready at http://127.0.0.1:8000\n"
    assert _announced(None, read({"POSTERN_BIND": "unix:/run/x.sock"})) == f"Postern is ready at unix:{Path('/run/x.sock')}\n"


def test_a_password_that_we_made_is_told() -> None:
    told = _announced(FirstOwner("owner@example.com", Password("made-by-us")), read({"POSTERN_BASE_URL": "https://id.example.com"}))
    assert "https://id.example.com/docs" in told
    assert "owner@example.com" in told
    assert "made-by-us" in told
    assert "shown only once" in told


def test_a_link_that_signs_in_is_told_beside_the_password() -> None:
    told = _announced(FirstOwner("owner@example.com", None, Secret("https://id.example.com/ui/sign-in/link?token=t")), read({}))
    assert re.search(r"^  Sign in +https://id\.example\.com/ui/sign-in/link\?token=t$", told, re.MULTILINE)
    assert "works once, for 10 minutes" in told


def test_a_password_that_was_given_is_not_told() -> None:
    told = _announced(FirstOwner("owner@example.com", None), read({"POSTERN_OWNER_PASSWORD": "given-by-you"}))
    assert "given-by-you" not in told
    assert "as set by POSTERN_OWNER_PASSWORD" in told


async def test_encryption_keys_of_another_database_end_the_start_with_a_sentence(database_url: str, tmp_path: Path) -> None:
    ours, lost = (f"{name}:{material * 43}=" for name, material in (("ours", "A"), ("lost", "E")))

    async def start(keys: str) -> None:
        settings = read({"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": keys, "POSTERN_DATA_DIR": str(tmp_path)})
        async with open_postern(settings) as postern:
            await complete(postern, settings)

    await start(lost)
    await start(f"{ours},{lost}")
    with pytest.raises(StartFailed, match=r"The encryption keys \(ours\) do not belong to this database"):
        await start(ours)


def test_where_mail_can_be_read_is_told_where_there_is_such_a_page() -> None:
    settings, owner = read({}), FirstOwner("owner@example.com", None)
    assert "/dev/mail" not in _announced(owner, settings)
    out = io.StringIO()
    announce(settings, owner, out, shows_mail=True)
    assert re.search(r"^  Mail +http://127\.0\.0\.1:8000/dev/mail$", out.getvalue(), re.MULTILINE)
