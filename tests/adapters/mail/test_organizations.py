"""Mail over the servers of organizations: only to checked addresses, and the password only over TLS."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any, Final
from uuid import uuid4

import httpcore
import pytest
import trio

from adapters.mail.smtp import TimeOuts
from adapters.mail.transports import GuardedPost
from adapters.outbound.client import Trust
from adapters.outbound.dialer import Dialer
from adapters.system import SystemClock
from core.domain.identifiers import JobId, MailServerId, OrganizationId
from core.domain.mail import Mail
from core.domain.outbound import Address
from core.domain.secrets import Secret
from core.domain.tenancy.mail_servers import MailServer
from ops.free_ports import free_port
from ops.stand_ins.mail_server import MailServer as Receiver
from ops.stand_ins.mail_server import mail_server, scripted_server
from ports.mail import MailDelayed, MailRefused
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.patience import PATIENCE

HOST: Final = "smtp.acme.example"
PUBLIC: Final = "93.184.215.14"
PASSWORD: Final = "hunter2-of-acme"
USERS: Final = {"acme": PASSWORD}
MAIL: Final = Mail("ada@example.org", "Subject", "Text", "<p>Text</p>")
LOCAL: Final = (ip_network("127.0.0.0/8"),)


class NamedAddresses:
    def __init__(self, *addresses: str) -> None:
        self._addresses = [ip_address(one) for one in addresses]

    async def addresses(self, _host: str) -> Sequence[Address]:
        await trio.lowlevel.checkpoint()
        return self._addresses


class OnePortNetwork(httpcore.AsyncNetworkBackend):
    """Every address leads to this port on loopback."""

    def __init__(self, port: int) -> None:
        self.connects: list[tuple[str, int]] = []
        self._port = port

    async def connect_tcp(self, host: str, port: int, *_others: Any, **_more: Any) -> httpcore.AsyncNetworkStream:
        self.connects.append((host, port))
        return await httpcore.TrioBackend().connect_tcp("127.0.0.1", self._port)


class Posting:
    def __init__(self, port: int, *addresses: str, authority: Any = None, allowed: Any = (), time_outs: TimeOuts | None = None) -> None:
        self.network = OnePortNetwork(port)
        dialer = Dialer(NamedAddresses(*addresses), allowed, None, self.network)
        self.post = GuardedPost(
            dialer.connect, dialer.permits, Trust(authority).context, SystemClock(), time_outs=time_outs or TimeOuts(5, 5, 20)
        )

    async def send(self, port: int = 587, host: str = HOST, password: str = PASSWORD, from_name: str | None = "Acme") -> None:
        now = datetime.now(UTC)
        server = MailServer(
            id=MailServerId(uuid4()),
            organization=OrganizationId(uuid4()),
            host=host,
            port=port,
            username="acme",
            from_email="it@acme.example",
            from_name=from_name,
            created_at=now,
            updated_at=now,
        )
        await self.post.send(server, Secret(password), MAIL, JobId(uuid4()))

    async def failure(self, **settings: Any) -> str:
        with pytest.raises(MailDelayed) as failed:
            await self.send(**settings)
        return str(failed.value)


@contextmanager
def posting(*addresses: str, security: Any = "starttls", **settings: Any) -> Iterator[tuple[Receiver, Posting]]:
    with mail_server(security=security, users=USERS, certificate_for=HOST) as receiver:
        yield receiver, Posting(receiver.port, *(addresses or (PUBLIC,)), authority=receiver.certificates.authority, **settings)


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465)])
async def test_a_mail_arrives_over_tls(security: Any, port: int) -> None:
    with posting(security=security) as (receiver, ours):
        await ours.send(port)
        (received,) = receiver.received
    assert ours.network.connects == [(PUBLIC, port)]
    assert (received.encrypted, received.user, received.sender) == (True, "acme", "it@acme.example")
    assert received.message["from"] == "Acme <it@acme.example>"


async def test_without_tls_no_password_leaves() -> None:
    with posting(security="plain") as (receiver, ours):
        assert "no STARTTLS" in await ours.failure()
        assert "AUTH" not in receiver.commands


async def test_a_server_of_this_machine_needs_no_tls() -> None:
    """The operator must have allowed such a server, and nobody is in between."""
    with posting("127.0.0.1", security="plain", allowed=LOCAL) as (receiver, ours):
        await ours.send()
        assert not receiver.received[0].encrypted


async def test_a_certificate_for_somebody_else_or_by_somebody_else_is_refused() -> None:
    with posting() as (_, ours):
        assert "certificate" in await ours.failure(host="mail.other.example")
    with mail_server(security="starttls", users=USERS, certificate_for=HOST) as receiver:
        assert "certificate" in await Posting(receiver.port, PUBLIC).failure()
        assert receiver.received == []


async def test_a_wrong_password_is_told_by_the_answers_code(log: CapturedLog) -> None:
    """A wrong password is the organization's error, not the operator's."""
    log.remember("another-password")
    with posting() as (_, ours):
        assert "did not let us sign in: 535" in await ours.failure(password="another-password")


async def test_a_recipient_that_is_refused_is_refused_for_good() -> None:
    with posting() as (receiver, ours):
        receiver.answer("RCPT", "550 5.1.1 no such mailbox", times=1)
        with pytest.raises(MailRefused, match="550"):
            await ours.send()


def hanging(connection: socket.socket) -> None:
    connection.recv(1)


async def test_a_server_that_hangs_holds_nobody_longer_than_this() -> None:
    with scripted_server(hanging) as port:
        ours = Posting(port, PUBLIC, time_outs=TimeOuts(5, 5, 0.2))
        with trio.fail_after(PATIENCE):
            assert "longer than" in await ours.failure()


async def test_an_answer_that_does_not_end_is_not_read_to_its_end() -> None:
    sent: list[int] = []

    def telling(connection: socket.socket) -> None:
        line = b"220-" + b"x" * 4000 + b"\r\n"
        with suppress(OSError):
            for _ in range(20_000):
                connection.sendall(line)
                sent.append(len(line))

    with scripted_server(telling) as port:
        assert "does not end" in await Posting(port, PUBLIC).failure()
    # What is on its way in the buffers of both sides, and not the eighty million bytes that it had to say.
    assert sum(sent) < 20_000_000


async def test_a_port_where_nobody_listens() -> None:
    assert "cannot be reached" in await Posting(free_port(), PUBLIC).failure()


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
async def test_no_name_and_no_address_leads_inside(address: str, log: CapturedLog) -> None:
    mixed = Posting(1, PUBLIC, address)
    assert "not allowed" in await mixed.failure()
    assert mixed.network.connects == []
    ours = Posting(1, address)
    assert "not allowed" in await ours.failure()
    assert not ours.post.may_use(address)
    assert "not allowed" in await ours.failure(host=address)
    assert ours.network.connects == []
    assert log.events("outbound_refused")


async def test_a_name_that_nobody_knows() -> None:
    assert "cannot be resolved" in await Posting(1).failure()


async def test_one_context_serves_all_and_names_no_other_protocol() -> None:
    trust = Trust(None)
    made: list[ssl.SSLContext] = []

    async def ask() -> None:
        made.append(await trust.context())

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(set(map(id, made))) == 1
    assert made[0].verify_mode is ssl.CERT_REQUIRED


async def test_a_sender_that_nobody_can_be() -> None:
    ours = Posting(1, PUBLIC)
    now = datetime.now(UTC)
    server = MailServer(
        id=MailServerId(uuid4()),
        organization=OrganizationId(uuid4()),
        host=HOST,
        port=587,
        username="acme",
        from_email="no address",
        from_name=None,
        created_at=now,
        updated_at=now,
    )
    with pytest.raises(MailDelayed, match="sender"):
        await ours.post.send(server, Secret("x"), MAIL, JobId(uuid4()))
