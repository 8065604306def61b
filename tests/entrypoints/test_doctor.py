"""The doctor's findings without a database, or without enough of a resource."""

import socket
from pathlib import Path

import pytest

from entrypoints import checks
from entrypoints.checks import Verdict
from entrypoints.failures import StartFailed
from entrypoints.installation import require_answer
from entrypoints.settings import Settings, read
from tests.e2e.postern import command

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def on(url: str) -> Settings:
    return read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY})


async def test_a_database_that_is_away_or_says_nothing_is_not_waited_for() -> None:
    """A server would wait for half a minute with these settings; the doctor does not."""
    with pytest.raises(StartFailed, match=r"The database cannot be reached: .*refused"):
        await require_answer(on("postgresql://me@127.0.0.1:1/postern"), 20)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StartFailed, match=r"no answer within 0\.2 s"):
        await require_answer(on(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/postern"), 0.2)


async def test_an_embedded_database_that_does_not_run_is_not_away(tmp_path: Path) -> None:
    await require_answer(read({"POSTERN_DATA_DIR": str(tmp_path)}), 0.1)


def test_the_doctor_says_at_once_that_the_database_is_away(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        examined = command(
            tmp_path,
            "doctor",
            POSTERN_DATABASE_URL=f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/postern",
            POSTERN_ENCRYPTION_KEYS=KEY,
        )
        # The doctor tries once, for a second. A server would go on for thirty.
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert examined.returncode == 1
    assert examined.stdout.splitlines()[-1] == "FAIL  database           The database cannot be reached: no answer within 1 s"
    assert not examined.stderr


def test_a_data_directory_with_too_little_space_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read({"POSTERN_DATA_DIR": str(tmp_path)})
    monkeypatch.setattr(checks, "_LITTLE_SPACE", 1)
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 0)
    assert checks.data_directory(settings).verdict is Verdict.OK
    monkeypatch.setattr(checks, "_LITTLE_SPACE", 1 << 60)
    assert checks.data_directory(settings).verdict is Verdict.SOON
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 1 << 60)
    found = checks.data_directory(settings)
    assert found.verdict is Verdict.FAIL
    assert found.text.endswith("GiB free: make room, since writes fail when it is full")


@pytest.mark.parametrize(
    ("migrate", "verdict", "said"),
    [("on", Verdict.WARN, "or the next `postern serve` applies it"), ("off", Verdict.FAIL, "run `postern migrate`, or no process starts")],
)
async def test_it_says_who_applies_a_migration(empty_database_url: str, migrate: str, verdict: Verdict, said: str) -> None:
    settings = read({"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MIGRATE": migrate})
    found, usable = await checks.schema(settings)
    assert (found.verdict, usable) == (verdict, False)
    assert found.text.endswith(said)
