"""Mail over SMTP, against real servers on loopback."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import trio

from adapters.mail.message import Sender
from adapters.mail.smtp import Conversation, Security, SmtpServer, SmtpTransport, TimeOuts
from adapters.mail.transports import smtp_server, transport_for
from core.domain.mail import Mail
from core.domain.secrets import Secret
from ops.free_ports import free_port
from ops.stand_ins.mail_server import LOOPBACK, MailServer, mail_server, scripted_server
from ports.mail import MailDelayed, MailRefused, MailTransport
from tests.adapters.mail.letters import ID, LINK, SENDER, FixedClock, mail
from tests.conftest import CapturedLog
from tests.patience import PATIENCE, SOONER

PASSWORD = "pä/#ss:w@rd"
USERS = {"postern@example.org": PASSWORD}
Encryption = Literal["starttls", "tls"]
QUICK = TimeOuts(connect=1, command=0.3, whole=1)


@pytest.fixture(params=["starttls", "tls"])
def security(request: pytest.FixtureRequest) -> Encryption:
    chosen: Encryption = request.param
    return chosen


def transport(server: MailServer, **options: str) -> MailTransport:
    return transport_for(server.url(**options), SENDER, clock=FixedClock())


def impatient(port: int, *, security: Security = Security.NEVER, time_outs: TimeOuts = QUICK) -> SmtpTransport:
    return SmtpTransport(SmtpServer(LOOPBACK, port, security), Sender.parse(SENDER), FixedClock(), time_outs=time_outs)


async def test_a_mail_arrives_as_it_was_sent() -> None:
    with mail_server() as server:
        await transport(server).send(mail(), ID)
        [received] = await server.wait_for(1)
    assert (received.sender, received.recipients) == ("no-reply@id.example.org", ["alice@example.org"])
    assert received.part("plain") == mail().text
    assert received.part("html") == mail().html
    assert received.message["Message-ID"] == f"<{ID}@id.example.org>"
    assert not received.encrypted


async def test_starttls_is_used_when_it_is_offered() -> None:
    with mail_server(security="starttls") as server:
        await transport(server).send(mail(), ID)
        [received] = await server.wait_for(1)
    assert received.encrypted


async def test_smtps_is_encrypted_from_the_first_byte() -> None:
    with mail_server(security="tls") as server:
        await transport(server).send(mail(), ID)
        [received] = await server.wait_for(1)
    assert received.encrypted


async def test_the_user_signs_in_over_tls(security: Encryption, log: CapturedLog) -> None:
    log.remember(PASSWORD)
    with mail_server(security=security, users=USERS) as server:
        await transport(server).send(mail(), ID)
        [received] = await server.wait_for(1)
    assert received.user == "postern@example.org"


async def test_the_older_way_of_signing_in_works_too() -> None:
    with mail_server(security="starttls", users=USERS, mechanisms=("LOGIN",)) as server:
        await transport(server).send(mail(), ID)
        [received] = await server.wait_for(1)
    assert received.user == "postern@example.org"


async def test_a_server_that_offers_no_way_to_sign_in_delays_the_mail() -> None:
    with mail_server(security="starttls", users=USERS, mechanisms=()) as server, pytest.raises(MailDelayed, match="no way to sign in"):
        await transport(server).send(mail(), ID)


async def test_a_refused_password_delays_the_mail_and_is_said_loudly_but_not_shown(log: CapturedLog) -> None:
    log.allow("mail_login_refused")
    log.remember(PASSWORD, "wrong-password")
    with mail_server(security="starttls", users=USERS) as server:
        settings = smtp_server(server.url().replace(":p%C3%A4%2F%23ss%3Aw%40rd@", "@"), password=Secret("wrong-password"))
        with pytest.raises(MailDelayed, match=r"did not let us sign in: 535 5\.7\.8"):
            await SmtpTransport(settings, Sender.parse(SENDER), FixedClock()).send(mail(), ID)
    [entry] = log.events("mail_login_refused")
    assert entry["answer"] == "535 5.7.8"


async def test_nothing_is_sent_when_somebody_removed_starttls() -> None:
    with mail_server(security="plain") as server:
        with pytest.raises(MailDelayed, match="offers no STARTTLS"):
            await transport(server, starttls="require").send(mail(), ID)
        assert set(server.commands) <= {"EHLO", "QUIT"}


async def test_a_password_is_not_sent_when_somebody_removed_starttls() -> None:
    with mail_server(security="plain", users=USERS) as server:
        with pytest.raises(MailDelayed, match="offers no STARTTLS"):
            await transport(server).send(mail(), ID)
        assert "AUTH" not in server.commands


async def test_what_was_said_in_the_clear_before_tls_does_not_count() -> None:
    """Answers injected ahead of the handshake must not be taken for the server's (RFC 3207, 4.2)."""

    def play(connection: socket.socket) -> None:
        connection.sendall(b"220 mail.test\r\n")
        connection.recv(1000)
        connection.sendall(b"250-mail.test\r\n250 STARTTLS\r\n")
        connection.recv(1000)
        connection.sendall(b"220 go ahead\r\n250-mail.test\r\n250 AUTH PLAIN\r\n250 OK\r\n")
        connection.recv(1000)
        time.sleep(1)

    with scripted_server(play) as port, pytest.raises(MailDelayed):
        await impatient(port, security=Security.REQUIRE).send(mail(), ID)


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(security: Encryption) -> None:
    with mail_server(security=security) as server:
        url = server.url().partition("?")[0]
        with pytest.raises(MailDelayed, match="certificate is not trusted"):
            await transport_for(url, SENDER, clock=FixedClock()).send(mail(), ID)
        assert "MAIL" not in server.commands


async def test_a_certificate_of_another_name_is_not_trusted(security: Encryption) -> None:
    with mail_server(security=security, certificate_for="mail.example.org") as server:
        with pytest.raises(MailDelayed, match="certificate is not trusted"):
            await transport(server).send(mail(), ID)
        assert "MAIL" not in server.commands


async def test_a_laboratory_may_switch_verification_off(security: Encryption) -> None:
    with mail_server(security=security, certificate_for="mail.example.org") as server:
        url = f"{server.url().partition('?')[0]}?tls_verify=off"
        sending = transport_for(url, SENDER, clock=FixedClock())
        await sending.send(mail(), ID)
        [received] = await server.wait_for(1)
        assert "not verified" in await sending.check()
    assert received.encrypted


@pytest.mark.parametrize("command", ["RCPT", "DATA", "MESSAGE"])
async def test_a_refusal_of_this_mail_is_final(command: str, log: CapturedLog) -> None:
    log.remember("alice@example.org", LINK)
    with mail_server() as server:
        server.answer(command, f"550 5.7.1 alice@example.org is not wanted because of {LINK}")
        with pytest.raises(MailRefused) as refusal:
            await transport(server).send(mail(), ID)
    assert "550 5.7.1" in str(refusal.value)
    assert "alice" not in str(refusal.value)
    assert LINK not in str(refusal.value)
    assert not server.received


@pytest.mark.parametrize("command", ["EHLO", "MAIL", "RCPT", "DATA", "MESSAGE"])
@pytest.mark.parametrize("answer", ["451 4.3.0 come back later", "421 4.3.2 shutting down", "drop"])
async def test_a_passing_trouble_delays_the_mail(command: str, answer: str) -> None:
    with mail_server() as server:
        server.answer(command, answer, times=1)
        with pytest.raises(MailDelayed):
            await transport(server).send(mail(), ID)
        await transport(server).send(mail(), ID)
        assert {received.message["Message-ID"] for received in server.received} == {f"<{ID}@id.example.org>"}


@pytest.mark.parametrize(
    ("command", "answer"), [("MAIL", "550 5.7.1 no such sender"), ("MAIL", "530 5.7.0 sign in"), ("RCPT", "530 5.7.0 sign in")]
)
async def test_a_refusal_of_our_settings_delays_the_mail(command: str, answer: str) -> None:
    with mail_server() as server:
        server.answer(command, answer)
        with pytest.raises(MailDelayed, match=answer[:9]):
            await transport(server).send(mail(), ID)


async def test_a_mail_that_is_too_large_is_refused() -> None:
    with mail_server() as server:
        server.answer("MAIL", "552 5.3.4 too large")
        with pytest.raises(MailRefused, match="552"):
            await transport(server).send(mail(), ID)


async def test_an_address_that_needs_smtputf8_goes_out_when_it_is_offered() -> None:
    with mail_server() as server:
        await transport(server).send(mail(to="älice@example.org"), ID)
        [received] = await server.wait_for(1)
    assert received.recipients == ["älice@example.org"]
    assert "SMTPUTF8" in received.options


async def test_an_address_that_needs_smtputf8_is_refused_where_it_is_not_offered() -> None:
    with mail_server(international=False) as server:
        with pytest.raises(MailRefused, match="ASCII"):
            await transport(server).send(mail(to="älice@example.org"), ID)
        assert "MAIL" not in server.commands


@pytest.mark.parametrize(
    "recipient", ["alice@example.org\r\nRCPT TO:<eve@example.org>", "alice@example.org> NOTIFY=SUCCESS", "a@b.c,eve@example.org"]
)
async def test_an_address_cannot_carry_a_command(recipient: str) -> None:
    with mail_server() as server:
        with pytest.raises(MailRefused):
            await transport(server).send(mail(to=recipient), ID)
        assert not server.commands


async def test_lines_that_begin_with_a_dot_arrive_whole() -> None:
    text = ".\n..\n.hidden\nEND\n.\nQUIT\n"
    with mail_server() as server:
        await transport(server).send(Mail("alice@example.org", "Dots", text, "<p>.</p>\n"), ID)
        [received] = await server.wait_for(1)
    assert received.part("plain") == text


async def test_a_server_that_is_away_delays_the_mail() -> None:
    with pytest.raises(MailDelayed, match="Connection refused"):
        await impatient(free_port()).send(mail(), ID)


async def test_a_name_that_nobody_knows_delays_the_mail() -> None:
    with pytest.raises(MailDelayed, match="cannot be resolved"):
        await transport_for("smtp://mail.invalid..", SENDER, clock=FixedClock()).send(mail(), ID)


def _silent(connection: socket.socket) -> None:
    connection.recv(1)


def _unfriendly(connection: socket.socket) -> None:
    connection.sendall(b"554 5.7.1 not you\r\n")


def _nonsense(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _endless_line(connection: socket.socket) -> None:
    connection.sendall(b"220 " + b"x" * 20_000)


def _hangs_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("play", [_silent, _unfriendly, _nonsense, _endless_line, _hangs_up])
@pytest.mark.parametrize("encryption", [Security.NEVER, Security.TLS])
async def test_a_strange_server_delays_the_mail_in_bounded_time(play: Callable[[socket.socket], None], encryption: Security) -> None:
    with scripted_server(play) as port:
        started = trio.current_time()
        with pytest.raises(MailDelayed):
            await impatient(port, security=encryption).send(mail(), ID)
        assert trio.current_time() - started < SOONER


@pytest.mark.parametrize("encryption", [Security.NEVER, Security.TLS])
async def test_a_server_that_answers_drop_by_drop_is_cut_off(encryption: Security) -> None:
    """Each byte comes within the command's time-out, the whole never: no thread may be held for hours. A TLS handshake has one time-out."""

    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"2")
            time.sleep(0.1)

    time_outs = TimeOuts(connect=1, command=0.5, whole=0.6)
    with scripted_server(drip if encryption is Security.NEVER else _drip_record) as port:
        with pytest.raises(MailDelayed, match=r"longer than 0\.6 s|no answer in time"):
            await impatient(port, security=encryption, time_outs=time_outs).send(mail(), ID)
        await _no_thread_left()


def _drip_record(connection: socket.socket) -> None:
    """The head of a TLS record that announces 16 KiB, and then its bytes one by one."""
    connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
    while True:
        connection.sendall(b"\0")
        time.sleep(0.1)


async def test_a_slow_step_times_out() -> None:
    with mail_server() as server:
        server.delay("RCPT", 5)
        with pytest.raises(MailDelayed, match="no answer in time"):
            await impatient(server.port).send(mail(), ID)


async def test_cancellation_ends_the_thread_at_once_and_nothing_more_is_sent() -> None:
    with mail_server() as server:
        server.delay("RCPT", 0.5)
        sending = transport(server)
        with trio.move_on_after(0.2) as scope:
            await sending.send(mail(), ID)
        assert scope.cancelled_caught
        await _no_thread_left()
        await trio.sleep(0.5)
        assert "DATA" not in server.commands
        assert not server.received


async def test_an_abandoned_attempt_that_was_still_connecting_sends_nothing() -> None:
    heard: list[bytes] = []

    # Not asyncio's server: that one forgets to close a connection which its client has reset already.
    def listen(connection: socket.socket) -> None:
        connection.sendall(b"220 mail.test\r\n")
        heard.append(connection.recv(1024))

    with scripted_server(listen) as port:
        conversation = Conversation(SmtpServer(LOOPBACK, port, Security.NEVER), None, QUICK)
        conversation.abort()
        with pytest.raises(MailDelayed):
            await trio.to_thread.run_sync(conversation.hold, None)
        await trio.sleep(0.1)
        assert not b"".join(heard)


async def test_check_says_where_mail_goes(log: CapturedLog) -> None:
    log.remember(PASSWORD)
    with mail_server(security="starttls", users=USERS) as server:
        line = await transport(server).check()
        assert not server.received
    assert line == f"127.0.0.1:{server.port}, TLSv1.3, signed in"


async def test_check_says_what_stands_in_the_way() -> None:
    with pytest.raises(MailDelayed, match="Connection refused"):
        await impatient(free_port()).check()


async def test_many_mails_at_once_all_arrive() -> None:
    with mail_server() as server:
        sending = transport(server)
        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(sending.send, mail(to=f"user{number}@example.org"), ID)
        received = await server.wait_for(30)
    assert len({one.recipients[0] for one in received}) == 30


async def test_no_descriptor_is_left_open() -> None:
    with mail_server(security="starttls") as server:
        sending = transport(server)
        await sending.send(mail(), ID)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            await sending.send(mail(), ID)
        server.answer("RCPT", "450 later")
        for _ in range(5):
            with pytest.raises(MailDelayed):
                await sending.send(mail(), ID)
        # The server's side of a connection is closed in the server's own thread.
        with trio.fail_after(PATIENCE):
            while len(list(Path("/proc/self/fd").iterdir())) > before:
                await trio.sleep(0.01)


async def _no_thread_left() -> None:
    """Trio's cache of idle threads names its threads by what they last did."""
    with trio.fail_after(PATIENCE):
        while any("hold" in thread.name for thread in threading.enumerate()):
            await trio.sleep(0.01)
