"""Mail over the servers of organizations. An organization chooses its server's address, so the connection comes from the guarded dialer.
The conversation over the connection is the same as with the installation's own server.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from adapters.mail.message import Sender, compose
from adapters.mail.smtp import Conversation, Security, SmtpServer, TimeOuts, too_long
from adapters.mail_address import MailAddress, MalformedAddress
from core.domain.identifiers import JobId
from core.domain.mail import Mail
from core.domain.outbound import Address, address_of
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import MailServer
from ports.mail import MailDelayed
from ports.outbound import Failure, OutboundFailed
from ports.system import Clock

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
    """Implements `ports.tenancy.organizations.OrganizationPost`."""

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
