"""Mail into files."""

import os
import stat
from email import message_from_bytes, policy
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.mail.local import FileTransport
from adapters.mail.message import Sender
from core.domain.identifiers import JobId
from ports.mail import MailDelayed, MailRefused
from tests.adapters.mail.letters import ID, SENDER, FixedClock, mail


def transport(directory: Path) -> FileTransport:
    return FileTransport(directory, Sender.parse(SENDER), FixedClock())


async def test_each_mail_is_one_file_that_a_mail_reader_opens(tmp_path: Path) -> None:
    await transport(tmp_path / "mail").send(mail(), ID)
    [file] = (tmp_path / "mail").iterdir()
    assert file.name == f"{ID}.eml"
    message = message_from_bytes(file.read_bytes(), policy=policy.default)
    assert message["To"] == "alice@example.org"


async def test_only_the_owner_may_read_mail(tmp_path: Path) -> None:
    await transport(tmp_path / "deep" / "mail").send(mail(), ID)
    assert stat.S_IMODE((tmp_path / "deep" / "mail").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "deep" / "mail" / f"{ID}.eml").stat().st_mode) == 0o600


async def test_a_mail_that_is_sent_again_replaces_itself(tmp_path: Path) -> None:
    sending = transport(tmp_path)
    await sending.send(mail(), ID)
    await sending.send(mail(), ID)
    await sending.send(mail(), JobId(uuid4()))
    assert len(list(tmp_path.iterdir())) == 2


async def test_a_recipient_cannot_choose_the_place(tmp_path: Path) -> None:
    with pytest.raises(MailRefused):
        await transport(tmp_path).send(mail(to="../../etc/passwd"), ID)
    assert not list(tmp_path.iterdir())


async def test_a_directory_that_cannot_be_written_to_delays_the_mail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sending = transport(tmp_path / "file" / "mail")
    with pytest.raises(MailDelayed, match="Not a directory"):
        await sending.send(mail(), ID)
    with pytest.raises(MailDelayed, match="Not a directory"):
        await sending.check()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device to try")  # noqa: PTH110 - at import
async def test_a_full_disk_delays_the_mail_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / f".{ID}").symlink_to("/dev/full")
    with pytest.raises(MailDelayed, match="No space left"):
        await transport(tmp_path).send(mail(), ID)
    assert not list(tmp_path.iterdir())


async def test_check_leaves_nothing_behind(tmp_path: Path) -> None:
    assert await transport(tmp_path).check() == f"written to {tmp_path}, one .eml each"
    assert not list(tmp_path.iterdir())
