"""Sends mail over SMTP (RFC 5321): the standard library's blocking client in a worker thread, with a timeout for each step and one for the
whole.
"""

import base64
import re
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from enum import StrEnum
from typing import IO, Final

import structlog
import trio

from adapters.mail.message import Letter, Sender, compose
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.mail import MailDelayed, MailRefused
from ports.system import Clock

log = structlog.get_logger()

Reply = tuple[int, bytes]


class Security(StrEnum):
    """How the connection is encrypted."""

    TLS = "tls"  # TLS from the first byte
    REQUIRE = "require"  # STARTTLS, otherwise no mail is sent
    OPPORTUNISTIC = "opportunistic"  # STARTTLS if the server offers it
    NEVER = "never"


class SmtpServer(Frozen):
    """The mail server, and how to use it. `verified_by` is a file with certificate authorities; None means the system's. `is_ours` means
    that the server is the installation's own, so the operator repairs its faults.
    """

    host: str
    port: int
    security: Security
    user: str | None = None
    password: Secret | None = None
    verify: bool = True
    verified_by: str | None = None
    is_ours: bool = True

    def tls(self) -> ssl.SSLContext | None:
        """Reads the certificates. Raises OSError when they cannot be read."""
        if self.security is Security.NEVER:
            return None
        context = ssl.create_default_context(cafile=self.verified_by)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class TimeOuts(Frozen):
    """In seconds. `whole` stops a server that answers each step in time, but slowly. `whole` is shorter than the mailer's own timeout."""

    connect: float = 10.0
    command: float = 30.0
    whole: float = 120.0


# In bytes, for all lines of one answer. A server usually names some dozen extensions.
_LONGEST_ANSWER: Final = 64 << 10
# Each mail on its way takes one thread and one connection.
_THREADS: Final = 8
_GOODBYE: Final = 1.0
_ENHANCED: Final = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?!\S)")
DEFAULT_TIME_OUTS: Final = TimeOuts()


class SmtpTransport:
    """Implements `ports.mail.MailTransport`. One connection for each mail: an identity provider sends few mails, compared with a
    newsletter.

    Errors contain only the code of a server's response, because responses quote email addresses and links, and errors are stored and
    logged.
    """

    def __init__(self, server: SmtpServer, sender: Sender, clock: Clock, *, time_outs: TimeOuts = DEFAULT_TIME_OUTS) -> None:
        self._server = server
        self._sender = sender
        self._clock = clock
        self._time_outs = time_outs
        self._tls = server.tls()
        self._limiter = trio.CapacityLimiter(_THREADS)

    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        await self._converse(compose(mail, id, self._sender, self._clock.now()))

    async def check(self) -> str:
        return await self._converse(None)

    async def _converse(self, letter: Letter | None) -> str:
        conversation = Conversation(self._server, self._tls, self._time_outs)
        with trio.move_on_after(self._time_outs.whole):
            return await conversation.held_in_a_thread(letter, self._limiter)
        raise too_long(self._time_outs)


def too_long(time_outs: TimeOuts) -> MailDelayed:
    return MailDelayed(f"The mail server took longer than {time_outs.whole:g} s")


class Conversation:
    """One connection, from the first byte to the last, in a worker thread. Only `abort` may be called from another thread. `opened` is an
    open connection to use; without `opened`, the conversation connects by itself.
    """

    def __init__(self, server: SmtpServer, tls: ssl.SSLContext | None, time_outs: TimeOuts, opened: socket.socket | None = None) -> None:
        self._server = server
        self._tls = tls
        self._time_outs = time_outs
        # Held while the socket is set or closed, so that `abort` never shuts down a descriptor that already belongs to another connection.
        self._lock = threading.Lock()
        self._opened = opened
        self._socket: socket.socket | None = opened
        self._client: smtplib.SMTP | None = None
        self._aborted = False

    async def held_in_a_thread(self, letter: Letter | None, limiter: trio.CapacityLimiter) -> str:
        try:
            return await trio.to_thread.run_sync(self.hold, letter, limiter=limiter, abandon_on_cancel=True)
        finally:
            # After a timeout or a cancellation the thread still runs. `abort` wakes the thread at once, and the thread sends no more.
            self.abort()

    def abort(self) -> None:
        with self._lock:
            self._aborted = True
            if self._socket is not None:
                # The plain socket's shutdown, also with TLS. An SSLSocket's own shutdown first drops the encryption, and the thread might
                # then write unencrypted.
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def hold(self, letter: Letter | None) -> str:
        """Sign in, send the letter if there is one, and return a description of the connection. Raises only `MailRefused` and
        `MailDelayed`.
        """
        try:
            client = self._connect()
            encrypted = self._encrypt(client)
            self._sign_in(client)
            if letter is not None:
                self._deliver(client, letter)
            self._take_leave(client)
        except smtplib.SMTPDataError as error:
            raise self._failure("DATA", (error.smtp_code, _as_bytes(error.smtp_error))) from None
        except ssl.SSLCertVerificationError as error:
            raise MailDelayed(f"The mail server's certificate is not trusted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise MailDelayed(f"TLS with the mail server failed: {error.reason}") from None
        except (socket.gaierror, UnicodeError):
            raise MailDelayed("The mail server's name cannot be resolved") from None
        except OSError as error:
            raise MailDelayed(f"The connection to the mail server failed: {_cause(error)}") from None
        finally:
            self._hang_up()
        return f"{self._server.host}:{self._server.port}, {encrypted}, {'signed in' if self._server.user else 'without signing in'}"

    def _connect(self) -> smtplib.SMTP:
        opened = self._opened or socket.create_connection((self._server.host, self._server.port), self._time_outs.connect)
        self._keep(opened)
        opened.settimeout(self._time_outs.command)
        client = self._client = _Client(local_hostname=_our_name(opened), timeout=self._time_outs.command)
        client.sock = opened
        if self._server.security is Security.TLS:
            self._shake_hands(client)
        self._require("our connection", client.getreply())
        self._require("EHLO", client.ehlo())
        return client

    def _encrypt(self, client: smtplib.SMTP) -> str:
        """Switch to TLS as the server's settings ask. Returns a description of the encryption in use."""
        if self._server.security in {Security.REQUIRE, Security.OPPORTUNISTIC}:
            if client.has_extn("starttls"):
                self._require("STARTTLS", client.docmd("STARTTLS"))
                self._shake_hands(client)
                # RFC 3207 section 4.2: extensions that the server named before TLS do not count.
                client.esmtp_features = {}
                self._require("EHLO", client.ehlo())
            elif self._server.security is Security.REQUIRE:
                raise MailDelayed("The mail server offers no STARTTLS, and we send nothing without it")
        if not isinstance(client.sock, ssl.SSLSocket):
            return "not encrypted"
        return f"{client.sock.version()}{'' if self._server.verify else ', certificate not verified'}"

    def _shake_hands(self, client: smtplib.SMTP) -> None:
        plain = client.sock
        if plain is None or self._tls is None:
            raise smtplib.SMTPServerDisconnected("closed before TLS")
        # The socket is kept before the handshake begins, so that `abort` can shut it down.
        encrypted = self._tls.wrap_socket(plain, server_hostname=self._server.host, do_handshake_on_connect=False)
        self._keep(encrypted)
        encrypted.do_handshake()
        client.sock = encrypted
        # A new file object also drops bytes that an attacker on the network sent before TLS began.
        client.file = None

    def _sign_in(self, client: smtplib.SMTP) -> None:
        """Sign in without the standard library's `login`, which takes only ASCII and would put the password into its exception."""
        if self._server.user is None or self._server.password is None:
            return
        offered = client.esmtp_features.get("auth", "").upper().split()
        user, password = self._server.user, self._server.password.reveal()
        if "PLAIN" in offered:
            reply = client.docmd("AUTH", f"PLAIN {_base64(chr(0) + user + chr(0) + password)}")
        elif "LOGIN" in offered:
            reply = client.docmd("AUTH", "LOGIN")
            for answer in (user, password):
                if reply[0] == 334:
                    reply = client.docmd(_base64(answer))
        else:
            raise MailDelayed("The mail server offers no way to sign in that we know (PLAIN, LOGIN)")
        if reply[0] != 235:
            code = _code(reply)
            if 500 <= reply[0] < 600 and self._server.is_ours:
                log.error("mail_login_refused", server=self._server.host, answer=code)
            raise MailDelayed(f"The mail server did not let us sign in: {code}")

    def _deliver(self, client: smtplib.SMTP, letter: Letter) -> None:
        options: list[str] = []
        if letter.is_international:
            if not client.has_extn("smtputf8"):
                raise MailRefused("The mail server takes ASCII addresses only")
            options = ["SMTPUTF8", "BODY=8BITMIME"]
        # A refused sender is a fault in our settings, not in this mail, so the mail waits until the settings are corrected. Only a mail
        # that is too large (RFC 1870) is refused here.
        reply = client.mail(letter.sender, options)
        if reply[0] == 552:
            raise self._failure("MAIL", reply)
        self._require("MAIL", reply)
        self._require("RCPT", client.rcpt(letter.recipient), may_refuse=True)
        if client.sock is not None:
            # RFC 5321 section 4.5.3.2.6: the answer after the final dot can take long. A client that gives up early sends the mail twice.
            client.sock.settimeout(self._time_outs.whole)
        self._require("DATA", client.data(letter.content), may_refuse=True)

    def _take_leave(self, client: smtplib.SMTP) -> None:
        """Send QUIT. Errors are ignored, because the server has accepted the mail already."""
        with suppress(OSError):
            if client.sock is not None:
                client.sock.settimeout(_GOODBYE)
            client.docmd("QUIT")

    def _keep(self, opened: socket.socket) -> None:
        with self._lock:
            self._socket = opened
            if self._aborted:
                raise smtplib.SMTPServerDisconnected("nobody waits any more")

    def _hang_up(self) -> None:
        with self._lock:
            if self._client is not None:
                # The client reads through a file object of its own, which keeps the descriptor open.
                self._client.close()
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _require(self, step: str, reply: Reply, *, may_refuse: bool = False) -> None:
        if not 200 <= reply[0] < 300:
            raise self._failure(step, reply) if may_refuse else MailDelayed(f"The mail server answered {_code(reply)} to {step}")

    def _failure(self, step: str, reply: Reply) -> MailRefused | MailDelayed:
        text = f"The mail server answered {_code(reply)} to {step}"
        # 530 means "authentication required" (RFC 4954): a fault in our settings, not in the mail.
        return MailRefused(text) if 500 <= reply[0] < 600 and reply[0] != 530 else MailDelayed(text)


class _Client(smtplib.SMTP):
    """The standard library's client with a limit for answers. Without the limit it would read and keep any number of lines."""

    def getreply(self) -> Reply:
        if self.file is None and self.sock is not None:
            self.file = _Bounded(self.sock.makefile("rb"))
        if self.file is not None:
            self.file.left = _LONGEST_ANSWER
        return super().getreply()


class _Bounded:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.left = 0

    def readline(self, most: int) -> bytes:
        line = self._file.readline(most)
        self.left -= len(line)
        if self.left < 0:
            raise MailDelayed("The mail server's answer does not end")
        return line

    def close(self) -> None:
        self._file.close()


def _our_name(opened: socket.socket) -> str:
    """The name for EHLO. The standard library would look the name up in DNS, which can take long."""
    name = socket.gethostname()
    if "." in name and name.isascii():
        return name
    # RFC 5321 section 4.1.3: a client without a name gives its address.
    address = str(opened.getsockname()[0])
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _code(reply: Reply) -> str:
    """The code of an answer, with the enhanced code of RFC 3463 if the answer has one."""
    enhanced = _ENHANCED.match(reply[1])
    return f"{reply[0]} {enhanced[0].decode('ascii')}" if enhanced else str(reply[0])


def _as_bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="replace")


def _cause(error: OSError) -> str:
    """The reason of a failure. The standard library reports a timeout as "closed", and keeps the timeout as the error's context."""
    hidden = error.__context__ if isinstance(error, smtplib.SMTPException) else None
    if isinstance(error, TimeoutError) or isinstance(hidden, TimeoutError):
        return "no answer in time"
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return "closed by the server"
    return error.strerror or type(error).__name__
