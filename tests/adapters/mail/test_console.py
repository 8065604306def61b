"""Mail onto the console."""

from io import StringIO

import pytest

from adapters.mail.local import ConsoleTransport
from core.domain.mail import Mail
from ports.mail import MailDelayed
from tests.adapters.mail.letters import ID, LINK, mail


async def test_the_text_part_is_printed() -> None:
    stream = StringIO()
    await ConsoleTransport(stream).send(mail(), ID)
    assert "To: alice@example.org\nSubject: Reset your password\n" in stream.getvalue()
    assert LINK in stream.getvalue()


async def test_a_mail_cannot_command_the_terminal() -> None:
    stream = StringIO()
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    await ConsoleTransport(stream).send(Mail(f"a\r{hostile}@example.org", f"Hello{hostile}\nFrom: x", hostile, ""), ID)
    printed = stream.getvalue()
    assert not set(printed) & set("\x1b\x07\x9b\r")
    assert "\nFrom: x" not in printed


async def test_a_closed_console_delays_the_mail() -> None:
    stream = StringIO()
    stream.close()
    with pytest.raises(MailDelayed):
        await ConsoleTransport(stream).send(mail(), ID)


async def test_check_says_so() -> None:
    assert await ConsoleTransport(StringIO()).check() == "printed on the console"
