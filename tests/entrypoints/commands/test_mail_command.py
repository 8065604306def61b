"""`postern mail`: mail that went into files, read at the command line."""

from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from entrypoints.cli.main import main
from entrypoints.failures import FAILURE, OK, USAGE

TEXT = "Follow this:\n\nhttps://id.example/verify?token=abc_-1\n\nBell: \x07\n"
Run = Callable[..., tuple[int, str, str]]


def write(directory: Path, name: str, to: str = "ada@example.org", subject: str = "Verify your email address", text: str = TEXT) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f".{name}"
    unfinished.write_text(f"To: {to}\nSubject: {subject}\nDate: Sun, 01 Mar 2026 12:30:00 +0000\n\n{text}")
    unfinished.rename(directory / f"{name}.eml")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("POSTERN_DATA_DIR", str(tmp_path))
    for name in ("POSTERN_TEST_POSTGRES", "POSTERN_TEST_DATABASE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, **settings: str) -> tuple[int, str, str]:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        status = main(["mail", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_list_has_the_newest_first(tmp_path: Path, run: Run) -> None:
    for number in range(3):
        write(tmp_path / "mail", f"id-{number}", to=f"{number}@example.org")
    status, out, _ = run("list", "--limit", "2")
    assert status == OK
    assert out.splitlines() == [
        "id-2  2026-03-01 12:30 UTC  2@example.org  Verify your email address",
        "id-1  2026-03-01 12:30 UTC  1@example.org  Verify your email address",
    ]
    assert run("list", "--to", "0@EXAMPLE.org")[1].startswith("id-0  ")
    assert run("list", "--subject", "nothing like it") == (OK, "", "")


def test_a_mail_is_shown_without_what_a_terminal_would_obey(tmp_path: Path, run: Run) -> None:
    write(tmp_path / "mail", "id-1")
    status, out, _ = run("show")
    assert status == OK
    head = "To: ada@example.org\nSubject: Verify your email address\nSent: 2026-03-01 12:30 UTC\n\n"
    assert out == head + TEXT.replace("\x07", "\N{REPLACEMENT CHARACTER}")


def test_the_link_of_the_newest_mail_that_fits(tmp_path: Path, run: Run) -> None:
    for name, link in (("id-1", "old"), ("id-2", "new")):
        write(tmp_path / "mail", name, text=f"x\n\nhttps://id.example/{link}\n")
    write(tmp_path / "mail", "id-3", to="bob@example.org", text="x\n\nhttps://id.example/bob\n")
    assert run("show", "--link", "--to", "ada@example.org") == (OK, "https://id.example/new\n", "")
    assert run("show", "--link", "--to", "ada@example.org", "--subject", "verify") == (OK, "https://id.example/new\n", "")
    assert run("show", "--link", "id-1") == (OK, "https://id.example/old\n", "")


def test_a_mail_that_is_not_there_is_one_sentence(tmp_path: Path, run: Run) -> None:
    write(tmp_path / "mail", "id-1", text="no link")
    sentence = "postern: Email not found; `postern mail list` shows all\n"
    for arguments in (("--to", "eve@example.org"), ("id-2",), ("id-1", "--subject", "other"), ("../mail/id-1",)):
        assert run("show", *arguments) == (FAILURE, "", sentence)
    assert run("show", "--link") == (FAILURE, "", "postern: The email 'Verify your email address' to ada@example.org has no link\n")


def test_a_mail_that_is_on_its_way_is_waited_for(tmp_path: Path, run: Run) -> None:
    write(tmp_path / "mail", "id-1", to="bob@example.org")
    timer = Timer(0.3, write, (tmp_path / "mail", "id-2"))
    timer.start()
    try:
        assert run("show", "--link", "--to", "ada@example.org", "--wait", "30")[:2] == (OK, "https://id.example/verify?token=abc_-1\n")
    finally:
        timer.join()
    status, _, said = run("show", "--to", "eve@example.org", "--wait", "1")
    assert (status, said) == (FAILURE, "postern: Email not found yet; `postern mail list` shows all\n")


@pytest.mark.parametrize(
    ("mail", "where"),
    [("console", "the console"), ("smtp://mail.example.org:25", "an email server"), ("smtps://mail.example.org", "an email server")],
)
def test_mail_that_goes_elsewhere_is_one_sentence(mail: str, where: str, run: Run) -> None:
    for arguments in (("list",), ("show", "--link")):
        assert run(*arguments, POSTERN_MAIL=mail) == (
            FAILURE,
            "",
            f"postern: POSTERN_MAIL sends emails to {where}: `postern mail` reads only files, with POSTERN_MAIL=file:<dir>\n",
        )


def test_a_directory_that_cannot_be_meant_or_read_is_one_sentence(tmp_path: Path, run: Run) -> None:
    (tmp_path / "plain").write_text("")
    status, _, said = run("list", POSTERN_MAIL=f"file:{tmp_path}/plain")
    assert (status, said) == (FAILURE, f"postern: The mail directory {tmp_path}/plain cannot be read: Not a directory\n")
    status, _, said = run("list", POSTERN_MAIL="file://elsewhere/mail")
    assert (status, said) == (USAGE, "postern: POSTERN_MAIL cannot be used: The mail directory is named like file:/var/lib/postern/mail\n")
