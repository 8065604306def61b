"""Mail transports: the one that `POSTERN_MAIL` configures, and the mail servers of organizations."""

import re
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import trio

from adapters.mail.local import ConsoleTransport, FileTransport
from adapters.mail.message import Sender, compose
from adapters.mail.smtp import Conversation, Security, SmtpServer, SmtpTransport, TimeOuts, too_long
from adapters.mail_address import MailAddress, MalformedAddress
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from core.domain.outbound import Address, address_of
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import MailServer
from ports.mail import MailDelayed, MailTransport
from ports.outbound import Failure, OutboundFailed
from ports.system import Clock

# RFC 8314, 3.3 and RFC 6409, 3.1: submission over TLS, and with STARTTLS.
_PORTS: Final = {"smtp": 587, "smtps": 465}
_HOST: Final = re.compile(r"[A-Za-z0-9_.:-]+")
_OPTIONS: Final = {"smtp": ("starttls", "tls_verify", "ca"), "smtps": ("tls_verify", "ca")}


class MailSettingsError(ValueError):
    """The mail setting cannot be used. One sentence, which quotes nothing that could be part of a password."""


def transport_for(url: str, sender: str, *, clock: Clock, password: Secret | None = None) -> MailTransport:
    """Returns the transport for a value of `POSTERN_MAIL`.

        smtp://[user[:password]@]host[:587][?starttls=require|opportunistic|never&tls_verify=on|off&ca=/path]
        smtps://[user[:password]@]host[:465][?tls_verify=on|off&ca=/path]
        file:<dir>
        console

    Raises `MailSettingsError`. Uses no network, but reads the certificate file that the URL names.
    """
    try:
        from_whom = Sender.parse(sender)
    except MalformedAddress as reason:
        raise MailSettingsError(f"The sender of mail must be an address, or Name <address>: {reason}") from None
    if url == "console":
        return ConsoleTransport(sys.stdout)
    if url.startswith("file:"):
        return FileTransport(mail_directory(url), from_whom, clock)
    server = smtp_server(url, password=password)
    try:
        return SmtpTransport(server, from_whom, clock)
    except (OSError, ssl.SSLError):
        raise MailSettingsError("The mail URL's ca= names no readable file with certificates (PEM)") from None


def smtp_server(url: str, *, password: Secret | None = None) -> SmtpServer:
    """Raises `MailSettingsError`."""
    parts = _parts(url)
    options = _options(parts)
    user, password = _credentials(parts, password)
    verify = options.get("tls_verify", "on")
    if verify not in {"on", "off"}:
        raise MailSettingsError("The mail URL's tls_verify= is on or off")
    return SmtpServer(
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        security=_security(parts, options.get("starttls"), user),
        user=user,
        password=password,
        verify=verify == "on",
        verified_by=options.get("ca"),
    )


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise MailSettingsError(_MALFORMED) from None
    if parts.scheme not in _PORTS:
        raise MailSettingsError("Mail goes to smtp://host, smtps://host, file:<dir> or console")
    if port == 0 or parts.path not in {"", "/"} or parts.fragment or not _HOST.fullmatch(parts.hostname or ""):
        raise MailSettingsError(_MALFORMED)
    return parts


_MALFORMED: Final = (
    "The mail URL is not smtp://user:password@host:port or smtps://…; special characters in user and password are percent-encoded"
)


def _options(parts: SplitResult) -> dict[str, str]:
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        raise MailSettingsError(_MALFORMED) from None
    options = dict(pairs)
    known = _OPTIONS[parts.scheme]
    if len(options) < len(pairs) or not options.keys() <= set(known):
        raise MailSettingsError(f"After the ? of an {parts.scheme}:// mail URL stand, once each: {', '.join(known)}")
    return options


def _credentials(parts: SplitResult, password: Secret | None) -> tuple[str | None, Secret | None]:
    if parts.password and password is not None:
        raise MailSettingsError("The mail password is given twice, in the mail URL and by itself")
    user = unquote(parts.username) if parts.username else None
    if parts.password:
        password = Secret(unquote(parts.password))
    if user is not None and password is None:
        raise MailSettingsError("The mail URL names a user, and there is no password")
    if user is None and password is not None:
        raise MailSettingsError("There is a mail password, and the mail URL names no user")
    return user, password


def _security(parts: SplitResult, starttls: str | None, user: str | None) -> Security:
    if parts.scheme == "smtps":
        return Security.TLS
    if starttls is None:
        # Without a password there is nothing to steal but the mail itself, and a server without TLS gets the mail unencrypted anyway.
        return Security.REQUIRE if user is not None else Security.OPPORTUNISTIC
    chosen = {"require": Security.REQUIRE, "opportunistic": Security.OPPORTUNISTIC, "never": Security.NEVER}.get(starttls)
    if chosen is None:
        raise MailSettingsError("The mail URL's starttls= is require, opportunistic or never")
    if chosen is Security.OPPORTUNISTIC and user is not None:
        raise MailSettingsError("With a user, the mail URL's starttls= is require: an attacker could remove TLS and read the password")
    return chosen


def mail_directory(url: str) -> Path:
    """The directory that a `file:` URL names. Raises `MailSettingsError`."""
    path = url.removeprefix("file:")
    if path.startswith("//"):
        # A URL like file:///var/mail. Text between the second and the third slash would be the name of another machine.
        host, _, rest = path[2:].partition("/")
        path = f"/{rest}" if not host else ""
    if not path:
        raise MailSettingsError("The mail directory is named like file:/var/lib/postern/mail")
    return Path(path).expanduser()


# Opens a checked connection, and says whether it stays on this machine. Raises `OutboundFailed`.
Dial = Callable[[str, int], Awaitable[tuple[socket.socket, bool]]]

# Shorter than for the installation's server: a person may wait for the outcome of a test, and other mails for a free worker.
TIME_OUTS: Final = TimeOuts(connect=10.0, command=10.0, whole=20.0)
_THREADS: Final = 16
# RFC 8314 section 3.3: TLS from the first byte. On any other port STARTTLS begins it.
_TLS_PORT: Final = 465
_UNREACHED: Final = {
    Failure.REFUSED: "The mail server's address is not public, and the operator of this installation has not allowed it",
    Failure.UNRESOLVED: "The mail server's name cannot be resolved",
}


class GuardedPost:
    """Implements `ports.tenancy.organizations.OrganizationPost`.

    An organization chooses its server's host, so the connection comes from the guarded dialer. The conversation over the connection is the
    same as with the installation's own server.
    """

    def __init__(
        self,
        dial: Dial,
        permits: Callable[[Address], bool],
        trust: Callable[[], Awaitable[ssl.SSLContext]],
        clock: Clock,
        *,
        time_outs: TimeOuts = TIME_OUTS,
    ) -> None:
        self._dial = dial
        self._permits = permits
        self._trust = trust
        self._clock = clock
        self._time_outs = time_outs
        self._limiter = trio.CapacityLimiter(_THREADS)

    def may_use(self, host: str) -> bool:
        address = address_of(host)
        return address is None or self._permits(address)

    async def send(self, server: MailServer, password: Secret, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        try:
            sender = Sender(MailAddress.parse(server.from_email), server.from_name or "")
        except MalformedAddress:
            raise MailDelayed("The sender of the organization's mails is not an address to send mail from") from None
        letter = compose(mail, id, sender, self._clock.now())
        with trio.move_on_after(self._time_outs.whole):
            tls = await self._trust()
            opened, is_local = await self._dialled(server)
            # The password is sent only over TLS, unless the connection stays on this machine.
            security = Security.OPPORTUNISTIC if is_local else Security.REQUIRE
            smtp = SmtpServer(
                host=server.host,
                port=server.port,
                security=Security.TLS if server.port == _TLS_PORT else security,
                user=server.username,
                password=password,
                is_ours=False,
            )
            await Conversation(smtp, tls, self._time_outs, opened).held_in_a_thread(letter, self._limiter)
            return
        raise too_long(self._time_outs)

    async def _dialled(self, server: MailServer) -> tuple[socket.socket, bool]:
        try:
            return await self._dial(server.host, server.port)
        except OutboundFailed as failed:
            raise MailDelayed(_UNREACHED.get(failed.failure, "The mail server cannot be reached")) from None
