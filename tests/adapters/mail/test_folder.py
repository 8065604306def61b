"""Mail files, read again."""

import os
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from adapters.mail.local import FileTransport, FolderUnreadable, KeptMail, MailFolder
from adapters.mail.message import Sender
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from tests.adapters.mail.letters import ID, LINK, NOW, SENDER, FixedClock, mail

_numbers = count(1)


async def send(directory: Path, *mails: Mail) -> list[str]:
    transport = FileTransport(directory, Sender.parse(SENDER), FixedClock())
    ids = [JobId(UUID(int=ID.int + next(_numbers))) for _ in mails]
    for one, id_ in zip(mails, ids, strict=True):
        await transport.send(one, id_)
    return [str(one) for one in ids]


def read(directory: Path, to: str = "", subject: str = "") -> list[str]:
    return [one.id for one in MailFolder(directory).mails(to=to, subject=subject)]


async def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    text = f"Grüße 🧀,\n\n{LINK}\n\n{'long ' * 40}\n--\nSent to alice@example.org by https://id.example.org\n"
    (id_,) = await send(tmp_path, Mail("alice@example.org", "Grüße = and more", text, "<p>x</p>"))
    assert MailFolder(tmp_path).find(id_) == KeptMail(id_, "alice@example.org", "Grüße = and more", NOW, text)


async def test_the_newest_comes_first(tmp_path: Path) -> None:
    ids = await send(tmp_path, *[mail()] * 3)
    assert read(tmp_path) == ids[::-1]


async def test_mail_is_found_by_its_address_and_by_words_of_its_subject(tmp_path: Path) -> None:
    ids = await send(
        tmp_path, mail(to="ada@example.org"), mail(to="Ada@Example.org", subject="Something else"), mail(to="notada@example.org")
    )
    assert read(tmp_path, to="ADA@example.org") == [ids[1], ids[0]]
    assert read(tmp_path, to="ADA@example.org", subject="RESET your") == [ids[0]]
    assert read(tmp_path, to="da@example.org") == []


async def test_a_link_is_one_that_stands_alone_on_its_line(tmp_path: Path) -> None:
    text = f"See https://a.example/x here.\n{LINK}\nhttps://b.example/y\n--\nSent by https://id.example.org\n"
    await send(tmp_path, Mail("alice@example.org", "x", text, "<p>x</p>"))
    (found,) = MailFolder(tmp_path).mails()
    assert found.links == (LINK, "https://b.example/y")


async def test_a_boundary_that_looks_encoded_does_no_harm(tmp_path: Path) -> None:
    """`=00` in a boundary of MIME is no NUL: a reader that decoded the file as a whole thought that it was binary."""
    (id_,) = await send(tmp_path, mail())
    file = tmp_path / f"{id_}.eml"
    content = file.read_bytes()
    boundary = content.partition(b'boundary="')[2].partition(b'"')[0]
    file.write_bytes(content.replace(boundary, b"===============00=00==="))
    (found,) = MailFolder(tmp_path).mails()
    assert found.links == (LINK,) or LINK in found.text


async def test_only_finished_mails_of_the_directory_are_opened(tmp_path: Path) -> None:
    directory = tmp_path / "mail"
    (id_,) = await send(directory, mail())
    (tmp_path / "secret.eml").write_text("To: x\n\nsecret")
    (directory / f".{id_}").write_text("unfinished")
    (directory / ".hidden.eml").write_text("To: x\n\n")
    (directory / "notes.txt").write_text("x")
    folder = MailFolder(directory)
    assert read(directory) == [id_]
    for name in ("../secret", str(tmp_path / "secret"), ".hidden", f".{id_}", "", "notes", "none"):
        assert folder.find(name) is None, name


def test_a_directory_that_is_not_there_yet_has_no_mail(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []


def test_a_path_that_is_no_directory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnreadable, match=r"The mail directory .*/file cannot be read: Not a directory"):
        read(tmp_path / "file")


async def test_a_mail_that_cannot_be_read_says_so_and_one_that_vanished_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (id_,) = await send(tmp_path, mail())
    (tmp_path / "zzz.eml").mkdir()
    with pytest.raises(FolderUnreadable, match=r"The mail .*zzz.eml cannot be read: Is a directory"):
        read(tmp_path)
    (tmp_path / "zzz.eml").rmdir()
    folder = MailFolder(tmp_path)
    monkeypatch.setattr(folder, "_names", lambda: ["gone", id_])
    assert [one.id for one in folder.mails()] == [id_]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no header at all",
        b"To: \xff\xfe\nSubject: =?utf-9?q?x?=\nDate: never\n\n\x00",
        b"Content-Type: text/plain; charset=nonsense\n\nx",
        b"Content-Type: text/html\n\n<p>x",
        os.urandom(4096),
    ],
)
def test_any_file_in_the_directory_is_shown_as_far_as_it_goes(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.eml").write_bytes(content)
    (found,) = MailFolder(tmp_path).mails()
    assert (found.id, found.sent_at) == ("x", None)
