"""The command line's own decisions. tests/e2e/test_commands.py covers the commands end to end."""

import errno
import io
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import trio

from core.domain.errors import Conflict, Unavailable
from entrypoints.cli import main, owner
from entrypoints.failures import OK, DataDirectoryInUse, StartFailed, sole
from entrypoints.settings import SettingsError
from tests.conftest import CapturedLog
from tests.places import ROOT


class _Terminal:
    def isatty(self) -> bool:
        return True


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    given = iter(answers)
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(owner, "getpass", lambda _prompt: next(given))


def test_a_password_is_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "correct-horse", "correct-horse")
    assert owner._ask_for_password().reveal() == "correct-horse"
    _answers(monkeypatch, "correct-horse", "correct-house")
    with pytest.raises(StartFailed, match="The two passwords differ: try again"):
        owner._ask_for_password()


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (StartFailed("No luck"), 1, "postern: No luck\n"),
        (SettingsError("POSTERN_X must be y"), 2, "postern: POSTERN_X must be y\n"),
        (DataDirectoryInUse("Another"), 3, "postern: Another\n"),
        (Conflict("Taken", detail="private"), 1, "postern: Taken\n"),
        (Unavailable(retry_after=1, detail="disk full"), 1, "postern: The service is temporarily unavailable: disk full\n"),
        (ExceptionGroup("", [ExceptionGroup("", [StartFailed("Wrapped")])]), 1, "postern: Wrapped\n"),
        (PermissionError(errno.EACCES, "Permission denied", "/backups"), 1, "postern: /backups: Permission denied\n"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/a\x1b[2J"), 1, "postern: /a?[2J: Not a directory\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "postern: No space left on device\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_was_foreseen_is_one_sentence(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_given: Namespace) -> int:
        raise error

    monkeypatch.setattr(main, "_run", fail)
    assert main.main(["version"]) == status
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_disk_under_the_output_is_one_sentence(buffered: bool) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        ended = subprocess.run(
            [sys.executable, *([] if buffered else ["-u"]), "-m", "entrypoints.cli.main", "version"],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "postern: No space left on device\n")


def _find(_given: Namespace) -> int:
    sys.stdout.write("a finding\n")
    sys.stdout.flush()
    return OK


def _find_in_a_nursery(given: Namespace) -> int:
    async def find() -> int:
        async with trio.open_nursery():
            return _find(given)

    return trio.run(find)


@pytest.mark.parametrize("run", [_find, _find_in_a_nursery])
def test_a_reader_who_has_seen_enough_leaves_no_stack_in_the_log(
    run: Callable[[Namespace], int], monkeypatch: pytest.MonkeyPatch, log: CapturedLog
) -> None:
    """As `postern doctor | head -3` does."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(main, "import_module", lambda _name: SimpleNamespace(run=run))
        assert main.main(["version"]) == 1
    assert log.events("crashed") == []


def test_what_was_not_foreseen_leaves_its_stack_in_the_log(monkeypatch: pytest.MonkeyPatch, log: CapturedLog) -> None:
    log.allow("crashed")
    failing = SimpleNamespace(run=lambda _given: 1 // 0)
    monkeypatch.setattr(main, "import_module", lambda _name: failing)
    assert main.main(["version"]) == 1
    (entry,) = log.events("crashed")
    assert isinstance(entry["exc_info"], ZeroDivisionError)


@pytest.mark.parametrize("number", ["1001", f"{'0' * 30}5", f"{'0' * 12}{'9' * 12}", "9" * 5000, "1e2", "\u0663"])
def test_a_number_out_of_bounds_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, bounds in ((["mail", "list", "--limit"], "up to 1000"), (["doctor", "--processes"], "from 1 to 256")):
        with pytest.raises(SystemExit):
            main.main([*words, number])
        assert f"must be a number {bounds}" in capsys.readouterr().err


@pytest.mark.parametrize(("encoding", "written"), [("ascii", b"K\\xe4se \\U0001f9c0\n"), ("utf-8", "Käse 🧀\n".encode())])
def test_what_the_output_has_no_letters_for_is_written_as_its_code(encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding, write_through=True))

    def tell(_given: Namespace) -> int:
        sys.stdout.write("Käse 🧀\n")
        return OK

    monkeypatch.setattr(main, "_run", tell)
    assert main.main(["version"]) == OK
    assert out.getvalue() == written


def test_a_group_of_several_stays_a_group() -> None:
    group = ExceptionGroup("", [ValueError(), TypeError()])
    assert sole(group) is group
