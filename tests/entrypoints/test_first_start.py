"""The text that a start prints for the person who started it."""

import argparse
import io
import re
import subprocess
from pathlib import Path

import pytest

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.migrate import shipped
from core.domain.secrets import Password, Secret
from entrypoints.assembly import configured
from entrypoints.bootstrap import open_postern
from entrypoints.cli import config, serve
from entrypoints.failures import StartFailed
from entrypoints.first_start import FirstOwner, announce, complete
from entrypoints.installation import bring_up_to_date
from entrypoints.settings import Settings, SettingsError, read
from tests.conftest import CapturedLog
from tests.e2e.postern import environment
from tests.e2e.warm.processes import COMMAND
from tests.places import ROOT


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


@pytest.mark.parametrize(("command", "keys"), [("serve", "1:zzz"), ("migrate", "1:c2hvcnQ=")])
def test_a_first_start_with_keys_that_cannot_be_used_makes_nothing(tmp_path: Path, command: str, keys: str) -> None:
    """Otherwise the database would be there without the keys of its first start, and no later start would be one."""
    folder = tmp_path / "data"
    settings = {"POSTERN_ENCRYPTION_KEYS": keys, "POSTERN_BIND": f"unix:{tmp_path}/socket"}
    done = subprocess.run([*COMMAND, command], env=environment(folder, settings), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "POSTERN_ENCRYPTION_KEYS cannot be used: " in done.stderr
    assert [*tmp_path.iterdir()] == []
    assert "zzz" not in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"POSTERN_ENCRYPTION_KEYS": "1:zzz"}, "POSTERN_ENCRYPTION_KEYS cannot be used: The key '1' is not valid base64"),
        ({"POSTERN_MAIL": "smtp://me@mail.example.com:587"}, "POSTERN_MAIL_PASSWORD cannot be used: The mail URL names a user"),
        ({"POSTERN_CODEHOST_CLIENT_ID": "id"}, "POSTERN_CODEHOST_CLIENT_ID and POSTERN_CODEHOST_CLIENT_SECRET belong together"),
        ({"POSTERN_WIDGET_SECRET": "secret"}, "POSTERN_WIDGET is off: name the widget"),
        ({"POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_LANES": "4"}, "POSTERN_ARGON2_MEMORY, "),
    ],
)
def test_what_a_start_would_refuse_is_refused_before_it_and_when_settings_are_looked_at(
    tmp_path: Path, given: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = read({**given, "POSTERN_DATA_DIR": str(tmp_path / "data"), "POSTERN_BIND": f"unix:{tmp_path}/socket"})
    with pytest.raises(SettingsError, match=re.escape(told)):
        config.run(argparse.Namespace(json=False), settings)
    with pytest.raises(SettingsError, match=re.escape(told)):
        serve.run(argparse.Namespace(as_child=None, processes=1), settings)
    assert [*tmp_path.iterdir()] == []
    assert capsys.readouterr().out == ""


async def test_an_installation_whose_keys_were_a_setting_says_so(tmp_path: Path) -> None:
    """A start without the setting finds a database, and no file of keys."""
    with pytest.raises(StartFailed, match="or set POSTERN_ENCRYPTION_KEYS, if they were a setting"):
        configured.key_ring(read({"POSTERN_DATA_DIR": str(tmp_path)}))


def test_where_mail_can_be_read_is_told_where_there_is_such_a_page() -> None:
    settings, owner = read({}), FirstOwner("owner@example.com", None)
    assert "/dev/mail" not in _announced(owner, settings)
    out = io.StringIO()
    announce(settings, owner, out, shows_mail=True)
    assert re.search(r"^  Mail +http://127\.0\.0\.1:8000/dev/mail$", out.getvalue(), re.MULTILINE)


async def test_a_new_database_is_one_line_whatever_the_number_of_its_migrations(
    empty_database_url: str, tmp_path: Path, log: CapturedLog
) -> None:
    keys = EncryptionKey("test", b"k" * 32).line()
    settings = read({"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_DATA_DIR": str(tmp_path), "POSTERN_ENCRYPTION_KEYS": keys})
    await bring_up_to_date(settings)
    (told,) = [entry for entry in log.entries if entry["level"] == "info"]
    migrations = shipped()
    assert (told["event"], told["count"], told["newest"]) == ("migrations_applied", len(migrations), str(migrations[-1]))
    said = [entry["progress"] for entry in log.events("migration")]
    assert all(any(line.startswith(f"Applied {migration} in ") for line in said) for migration in migrations)
    await bring_up_to_date(settings)
    assert log.events("migrations_applied") == [told]
