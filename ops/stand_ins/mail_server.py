"""A real SMTP server on loopback, for every test that sends mail: plain, STARTTLS or TLS, with users, refusals and delays as a test asks.

with mail_server(security="starttls", users={"postern": "secret"}) as server:
transport = transport_for(server.url(), "postern@example.org", clock=clock)
...
[received] = await server.wait_for(1)
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import quote, urlencode

import trio
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ops.patience import PATIENCE

LOOPBACK = "127.0.0.1"

# This logger reports every refusal that a test asks for.
logging.getLogger("mail.log").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: an authority, and a server's certificate signed by it, for localhost and 127.0.0.1 unless it is for another host."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(directory: Path, *, host: str = "localhost") -> Certificates:
    made = Certificates(directory / "authority.pem", directory / "server.pem", directory / "server.key")
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority, name = _name("Postern test authority"), _name(host)
    ca = _certificate(authority, authority, authority_key.public_key(), authority_key, x509.BasicConstraints(ca=True, path_length=0))
    names = x509.SubjectAlternativeName(
        [x509.DNSName(host), *([x509.IPAddress(ip_address(LOOPBACK))] if host == "localhost" else [])],
    )
    server = _certificate(name, authority, server_key.public_key(), authority_key, names)
    made.authority.write_bytes(ca.public_bytes(Encoding.PEM))
    made.certificate.write_bytes(server.public_bytes(Encoding.PEM))
    made.key.write_bytes(server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signed_with: ec.EllipticCurvePrivateKey,
    extension: x509.BasicConstraints | x509.SubjectAlternativeName,
) -> x509.Certificate:
    now = datetime.now(UTC)
    is_authority = isinstance(extension, x509.BasicConstraints)
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False),
        **dict.fromkeys(("crl_sign", "encipher_only", "decipher_only"), False),
    )
    # Python 3.13 verifies strictly: key identifiers must be there, and an authority's certificate must say that its key signs certificates.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=is_authority)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signed_with.public_key()), critical=False)
        .sign(signed_with, hashes.SHA256())
    )


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """A mail that the server has accepted."""

    sender: str
    recipients: list[str]
    content: bytes
    encrypted: bool
    user: str | None
    options: list[str]

    @property
    def message(self) -> EmailMessage:
        message = message_from_bytes(self.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        return message

    def part(self, subtype: Literal["plain", "html"]) -> str:
        body = self.message.get_body((subtype,))
        assert body is not None
        text: str = body.get_content()
        return text.replace("\r\n", "\n")


@dataclass(slots=True)
class _Scripted:
    answer: str | None
    delay: float
    times: int


@dataclass(slots=True)
class MailServer:
    """The test's view of the server. Commands have their SMTP names; `MESSAGE` is the end of the data, where the server
    accepts the mail.
    """

    port: int
    security: Literal["plain", "starttls", "tls"]
    users: Mapping[str, str]
    certificates: Certificates
    received: list[ReceivedMail] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    _script: dict[str, list[_Scripted]] = field(default_factory=lambda: defaultdict(list))

    def url(self, *, host: str = LOOPBACK, **options: str) -> str:
        """The POSTERN_MAIL value for this server, with its first user and its authority."""
        if self.security != "plain":
            options.setdefault("ca", str(self.certificates.authority))
        user = next((f"{quote(name, safe='')}:{quote(password, safe='')}@" for name, password in self.users.items()), "")
        query = f"?{urlencode(options)}" if options else ""
        return f"{'smtps' if self.security == 'tls' else 'smtp'}://{user}{host}:{self.port}{query}"

    def answer(self, command: str, answer: str, *, times: int = 1_000_000) -> None:
        """The next few times, the server sends this answer instead of carrying the command out. `drop` closes the connection without an
        answer.
        """
        self._script[command].append(_Scripted(answer, 0, times))

    def delay(self, command: str, seconds: float, *, times: int = 1_000_000) -> None:
        """The server waits before it answers the command."""
        self._script[command].append(_Scripted(None, seconds, times))

    def obey(self) -> None:
        """From now on, the server carries every command out."""
        self._script.clear()

    async def wait_for(self, count: int, *, within: float = PATIENCE) -> list[ReceivedMail]:
        with trio.fail_after(within):
            while len(self.received) < count:
                await trio.sleep(0.01)
        return self.received

    async def play(self, command: str) -> str | None:
        """Runs in the server's thread. Returns the answer that the test's script gives to the command; None for the ordinary answer."""
        self.commands.append(command)
        scripted = self._script[command]
        while scripted:
            step = scripted[0]
            step.times -= 1
            if step.times <= 0:
                scripted.pop(0)
            await asyncio.sleep(step.delay)
            return step.answer
        return None


class _Protocol(SMTP):
    """The server's side of one connection."""

    def __init__(
        self, server: MailServer, connections: set[asyncio.BaseTransport], international: bool, mechanisms: Collection[str], loop: Any
    ) -> None:
        self._server = server
        self._connections = connections
        self.user: str | None = None
        super().__init__(
            _Handler(server),
            hostname="mail.test",
            enable_SMTPUTF8=international,
            tls_context=server.certificates.server_context() if server.security == "starttls" else None,
            auth_require_tls=server.security == "starttls",
            auth_exclude_mechanism={"PLAIN", "LOGIN"} - set(mechanisms),
            authenticator=self._knows,
            loop=loop,
        )
        for command, method in list(self._smtp_methods.items()):
            self._smtp_methods[command] = partial(self._scripted, command, method)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(transport)
        super().connection_made(transport)

    async def _scripted(self, command: str, method: Callable[[str | None], Any], argument: str | None) -> None:
        answer = await self._server.play(command)
        if answer == "drop":
            _abort(self.transport)
        elif answer is not None:
            await self.push(answer)
        else:
            await method(argument)

    def _knows(self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: LoginPassword) -> AuthResult:
        self.user = data.login.decode()
        known = self._server.users.get(self.user)
        return AuthResult(success=known is not None and known.encode() == data.password, handled=False)


class _Handler:
    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def handle_MAIL(self, _smtp: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802 - aiosmtpd's
        if self._server.users and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, smtp: _Protocol, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        answer = await self._server.play("MESSAGE")
        if answer not in {None, "drop"}:
            return str(answer)
        assert envelope.mail_from is not None
        assert isinstance(envelope.content, bytes)
        self._server.received.append(
            ReceivedMail(
                sender=envelope.mail_from,
                recipients=list(envelope.rcpt_tos),
                content=envelope.content,
                encrypted=session.ssl is not None or self._server.security == "tls",
                user=smtp.user,
                options=list(envelope.mail_options),
            )
        )
        if answer == "drop":
            _abort(smtp.transport)
        return "250 2.0.0 Accepted"


@contextmanager
def mail_server(
    *,
    security: Literal["plain", "starttls", "tls"] = "plain",
    users: Mapping[str, str] | None = None,
    mechanisms: Collection[str] = ("PLAIN", "LOGIN"),
    international: bool = True,
    certificate_for: str = "localhost",
    port: int = 0,
) -> Iterator[MailServer]:
    with TemporaryDirectory(prefix="postern-mail-") as directory:
        certificates = make_certificates(Path(directory), host=certificate_for)
        loop = asyncio.new_event_loop()
        connections: set[asyncio.BaseTransport] = set()
        described = MailServer(port, security, users or {}, certificates)
        context = certificates.server_context() if security == "tls" else None
        factory = partial(_Protocol, described, connections, international, mechanisms, loop)
        listening = loop.run_until_complete(loop.create_server(factory, LOOPBACK, port, ssl=context))
        described.port = listening.sockets[0].getsockname()[1]
        thread = threading.Thread(target=_serve, args=(loop, listening, connections), name="mail server", daemon=True)
        thread.start()
        try:
            yield described
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)


def _serve(loop: asyncio.AbstractEventLoop, listening: asyncio.AbstractServer, connections: set[asyncio.BaseTransport]) -> None:
    loop.run_forever()
    listening.close()
    loop.run_until_complete(_end(connections))
    loop.close()


async def _end(connections: set[asyncio.BaseTransport]) -> None:
    conversations = asyncio.all_tasks() - {asyncio.current_task()}
    for conversation in conversations:
        conversation.cancel()
    if conversations:
        await asyncio.wait(conversations, timeout=1)
    for connection in connections:
        _abort(connection)
    # A moment for the transports' last callbacks; otherwise the loop would be closed when they run.
    await asyncio.sleep(0.02)


def _abort(connection: asyncio.BaseTransport | None) -> None:
    assert isinstance(connection, asyncio.WriteTransport)
    connection.abort()


@contextmanager
def scripted_server(play: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that calls `play` for every connection, for behaviour that no honest server shows. Yields the server's port."""
    listening = socket.create_server((LOOPBACK, 0))
    opened: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                opened.append(connection)
                threading.Thread(target=_played, args=(play, connection), daemon=True).start()

    thread = threading.Thread(target=serve, name="scripted server", daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        # The accepting thread stops first, since it may accept one more connection.
        thread.join(5)
        listening.close()
        for connection in opened:
            connection.close()


def _played(play: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with suppress(OSError):
        play(connection)
