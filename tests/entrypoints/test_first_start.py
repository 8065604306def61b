"""What a start tells whoever began it."""

import io
from pathlib import Path

from core.domain.secrets import Password
from entrypoints.first_start import FirstOwner, announce
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
    assert "shown this once" in told


def test_a_password_that_was_given_is_not_told() -> None:
    told = _announced(FirstOwner("owner@example.com", None), read({"POSTERN_OWNER_PASSWORD": "given-by-you"}))
    assert "given-by-you" not in told
    assert "as set by POSTERN_OWNER_PASSWORD" in told
