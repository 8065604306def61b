"""The modules of back-channel logout: the application hears of the sign-out by a call of Postern's."""

import queue
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from urllib.parse import parse_qsl

import pytest

from ops.stand_ins.mail_server import Certificates
from tests.conformance.kit import id_tokens
from tests.conformance.kit import metadata as conditions
from tests.conformance.kit.installation import SIGNED_OUT, AskedServer
from tests.conformance.kit.metadata import WELL_KNOWN
from tests.conformance.kit.relying import Suite
from tests.conformance.rp_logout.test_logouts import end_session_state
from tests.patience import PATIENCE


def test_oidcc_backchannel_logout_discovery_endpoint_verification(suite: Suite) -> None:
    metadata = conditions.discovered(suite.client.get(WELL_KNOWN))
    conditions.all_endpoints_are_https(metadata)
    assert metadata["backchannel_logout_supported"] is True
    assert metadata["backchannel_logout_session_supported"] is True
    conditions.is_https(metadata, "end_session_endpoint")


@dataclass(frozen=True, slots=True)
class HeardNotice:
    head: str
    fields: dict[str, str]
    protocol: str | None


def _told(came: ssl.SSLSocket) -> HeardNotice:
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += came.recv(65536)
    head, _, body = heard.partition(b"\r\n\r\n")
    length = next(int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += came.recv(65536)
    came.sendall(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return HeardNotice(head.decode(), dict(parse_qsl(body.decode())), came.version())


@contextmanager
def hearing(certificates: Certificates) -> Iterator[tuple[int, queue.Queue[HeardNotice]]]:
    """The port of an application by https, and what it hears."""
    heard: queue.Queue[HeardNotice] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            plain, _ = listener.accept()
            with certificates.server_context().wrap_socket(plain, server_side=True) as came:
                heard.put(_told(came))

        Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1], heard


@pytest.fixture
def heard(conformance: AskedServer, suite: Suite) -> Iterator[queue.Queue[HeardNotice]]:
    """What the first application hears while this module runs."""
    service = "/api/organizations/acme/services/first"
    bearer = {"Authorization": f"Bearer {conformance.token}"}
    with hearing(conformance.certificates) as (port, told):
        wanted = {"backchannel_logout_uri": f"https://localhost:{port}/backchannel_logout", "backchannel_logout_session_required": True}
        assert suite.client.patch(service, json=wanted, headers=bearer).is_success
        yield told
        assert suite.client.patch(service, json={"backchannel_logout_uri": None}, headers=bearer).is_success


def test_oidcc_backchannel_rp_initiated_logout(suite: Suite, heard: queue.Queue[HeardNotice]) -> None:
    tokens = suite.tokens(suite.request(state=128))
    state = end_session_state()
    came = suite.at_logout(id_token_hint=tokens.id_token, post_logout_redirect_uri=SIGNED_OUT, state=state)
    notice = heard.get(timeout=PATIENCE)
    assert notice.head.startswith("POST /backchannel_logout ")
    suite.outcome.should(notice.protocol in {"TLSv1.2", "TLSv1.3"}, "an old TLS")
    suite.outcome.should(notice.protocol == "TLSv1.3", "no TLS 1.3")
    suite.outcome.should(notice.fields.keys() == {"logout_token"}, "unexpected parameters beside the token")
    first = suite.installation.first.client_id
    id_tokens.logout_token(notice.fields["logout_token"], suite.keys, suite.installation.issuer, tokens.claims, first)
    suite.signed_out_at(came, state)
    suite.is_signed_out()
