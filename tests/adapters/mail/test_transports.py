"""The meaning of POSTERN_MAIL values, and the message for a wrong one."""

from pathlib import Path

import pytest

from adapters.mail.local import ConsoleTransport, FileTransport
from adapters.mail.smtp import Security, SmtpTransport
from adapters.mail.transports import MailSettingsError, smtp_server, transport_for
from core.domain.secrets import Secret
from tests.adapters.mail.letters import SENDER, FixedClock


@pytest.mark.parametrize(
    ("url", "host", "port", "security"),
    [
        ("smtp://mail.example.org", "mail.example.org", 587, Security.OPPORTUNISTIC),
        ("smtp://mail.example.org:25/", "mail.example.org", 25, Security.OPPORTUNISTIC),
        ("smtp://user:password@mail.example.org", "mail.example.org", 587, Security.REQUIRE),
        ("smtp://mail.example.org?starttls=require", "mail.example.org", 587, Security.REQUIRE),
        ("smtp://mail.example.org?starttls=never", "mail.example.org", 587, Security.NEVER),
        ("smtp://user:password@127.0.0.1?starttls=never", "127.0.0.1", 587, Security.NEVER),
        ("smtps://mail.example.org", "mail.example.org", 465, Security.TLS),
        ("smtps://[::1]:4650", "::1", 4650, Security.TLS),
    ],
)
def test_a_url_names_a_server_and_its_encryption(url: str, host: str, port: int, security: Security) -> None:
    server = smtp_server(url)
    assert (server.host, server.port, server.security, server.verify) == (host, port, security, True)


def test_user_and_password_are_percent_decoded() -> None:
    server = smtp_server("smtp://post%40example.org:p%C3%A4%2F%23%3A@mail.example.org")
    assert server.user == "post@example.org"
    assert server.password is not None
    assert server.password.reveal() == "pä/#:"


def test_the_password_may_come_by_itself() -> None:
    server = smtp_server("smtps://postern@mail.example.org", password=Secret("by-itself"))
    assert server.password is not None
    assert server.password.reveal() == "by-itself"


def test_verification_can_be_switched_off() -> None:
    assert not smtp_server("smtps://mail.example.org?tls_verify=off").verify


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "Mail goes to"),
        ("mail.example.org", "Mail goes to"),
        ("http://mail.example.org", "Mail goes to"),
        ("smtp://", "is not smtp://user"),
        ("smtp://mail.example.org:none", "is not smtp://user"),
        ("smtp://mail.example.org:0", "is not smtp://user"),
        ("smtp://mail.example.org:70000", "is not smtp://user"),
        ("smtp://mail.example.org/inbox", "is not smtp://user"),
        ("smtp://user:very-#secret@mail.example.org", "is not smtp://user"),
        ("smtp://user:very-/secret@mail.example.org", "is not smtp://user"),
        ("smtp://user:12/very-secret@mail.example.org", "is not smtp://user"),
        ("smtp://user:very-secret]@mail.example.org", "is not smtp://user"),
        ("smtp://user:12?very-secret@mail.example.org", "is not smtp://user"),
        ("smtp://mail.exam ple.org", "is not smtp://user"),
        ("smtp://mail.example.org?starttls", "is not smtp://user"),
        ("smtp://mail.example.org?starttls=maybe", "starttls= is require, opportunistic or never"),
        ("smtp://mail.example.org?starttls=never&starttls=require", "once each: starttls, tls_verify, ca"),
        ("smtp://mail.example.org?very-secret=1", "once each: starttls, tls_verify, ca"),
        ("smtps://mail.example.org?starttls=require", "once each: tls_verify, ca"),
        ("smtp://mail.example.org?tls_verify=no", "tls_verify= is on or off"),
        ("smtp://user@mail.example.org", "there is no password"),
        ("smtp://user:very-secret@mail.example.org?starttls=opportunistic", "starttls= is require"),
        ("smtps://mail.example.org?ca=/nowhere/ca.pem", "ca= names no readable file"),
        ("file:", "is named like"),
        ("file://host/directory", "is named like"),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence_without_the_password(url: str, sentence: str) -> None:
    with pytest.raises(MailSettingsError, match=sentence) as error:
        transport_for(url, SENDER, clock=FixedClock())
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_password_given_twice_or_to_nobody_is_told() -> None:
    with pytest.raises(MailSettingsError, match="given twice"):
        smtp_server("smtp://user:one@mail.example.org", password=Secret("other"))
    with pytest.raises(MailSettingsError, match="names no user"):
        smtp_server("smtp://mail.example.org", password=Secret("other"))


def test_a_file_that_holds_no_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(MailSettingsError, match="ca= names no readable file"):
        transport_for(f"smtps://mail.example.org?ca={tmp_path}/ca.pem", SENDER, clock=FixedClock())


def test_a_wrong_sender_is_told() -> None:
    with pytest.raises(MailSettingsError, match="sender of mail must be an address"):
        transport_for("console", "Postern", clock=FixedClock())


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("console", ConsoleTransport),
        ("file:mail", FileTransport),
        ("file:/var/mail", FileTransport),
        ("file:///var/mail", FileTransport),
        ("smtp://mail.example.org", SmtpTransport),
        ("smtps://mail.example.org", SmtpTransport),
    ],
)
def test_every_form_has_its_transport(url: str, kind: type) -> None:
    assert isinstance(transport_for(url, SENDER, clock=FixedClock()), kind)


async def test_a_file_url_with_three_slashes_is_an_absolute_path(tmp_path: Path) -> None:
    line = await transport_for(f"file://{tmp_path}/mail", SENDER, clock=FixedClock()).check()
    assert line == f"written to {tmp_path}/mail, one .eml each"
