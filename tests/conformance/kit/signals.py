"""The receiver's side of shared signals: it makes streams at the transmitter that Postern is, and hears by pushes or by polls.

The transmitter is an application of its own in acme, for which Alice, the organization's owner, has turned signals on.
"""

import queue
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final
from uuid import uuid4

import httpx
import jwt

from ops.stand_ins.mail_server import Certificates
from tests.conformance.kit.answers import is_json
from tests.conformance.kit.installation import ALICE, CALLBACK, PASSWORD, AskedServer, SuiteClient
from tests.conformance.kit.outcome import Outcome
from tests.patience import PATIENCE

WELL_KNOWN: Final = "/.well-known/ssf-configuration"
PUSH: Final = "urn:ietf:rfc:8935"
POLL: Final = "urn:ietf:rfc:8936"
CAEP: Final = "https://schemas.openid.net/secevent/caep/event-type/"
RISC: Final = "https://schemas.openid.net/secevent/risc/event-type/"
VERIFICATION: Final = "https://schemas.openid.net/secevent/ssf/event-type/verification"
# What the profile's receivers ask for.
ASKED: Final = tuple(f"{CAEP}{name}" for name in ("session-revoked", "credential-change", "device-compliance-change"))
BROKEN: Final = ";{ broken"
_APPLICATION: Final = "receiver"
_SERVICE: Final = f"/api/organizations/acme/services/{_APPLICATION}"
_OFFERED: Final = ("session-revoked", "credential-change", "account-disabled", "account-enabled")


@dataclass(frozen=True, slots=True)
class HeardSignal:
    """A security event token, and the headers of the push that brought it."""

    token: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def claims(self) -> dict[str, Any]:
        read: dict[str, Any] = jwt.decode(self.token, options={"verify_signature": False})
        return read

    @property
    def event(self) -> str:
        (named,) = self.claims["events"]
        return str(named)

    @property
    def facts(self) -> dict[str, Any]:
        (told,) = self.claims["events"].values()
        return dict(told)


def _pushed(came: ssl.SSLSocket) -> HeardSignal:
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += came.recv(65536)
    head, _, body = heard.partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
    headers = {name.lower(): value.strip() for name, _, value in lines}
    while len(body) < int(headers["content-length"]):
        body += came.recv(65536)
    came.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return HeardSignal(body.decode(), headers)


@contextmanager
def pushed(certificates: Certificates) -> Iterator[tuple[int, "queue.Queue[HeardSignal]"]]:
    """The port of a receiver by https, and what is pushed there."""
    heard: queue.Queue[HeardSignal] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with certificates.server_context().wrap_socket(plain, server_side=True) as came:
                        heard.put(_pushed(came))

        Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1], heard


@dataclass
class Transmitter:
    """One module's run, by one delivery method."""

    installation: AskedServer
    outcome: Outcome
    client: httpx.Client
    application: SuiteClient
    method: str
    is_interop: bool
    """Of the interoperability profile of CAEP."""
    port: int
    queue: "queue.Queue[HeardSignal]"
    header: str | None = "Bearer push_token_1"
    """The `Authorization` header of pushes."""
    stream: dict[str, Any] = field(default_factory=dict)
    asked_at: float = 0.0

    def __post_init__(self) -> None:
        """What every module asks of the transmitter before it starts."""
        answer = self.client.get(WELL_KNOWN)
        assert answer.status_code == 200
        assert is_json(answer)
        self.metadata: dict[str, Any] = answer.json()
        self.keys = jwt.PyJWKSet.from_dict(self.client.get(self.metadata["jwks_uri"]).json())
        asked = {"grant_type": "client_credentials", "scope": "ssf.manage ssf.read"}
        given = self.client.post(
            self.installation.metadata["token_endpoint"], data=asked, auth=(self.application.client_id, self.application.secret)
        )
        assert given.status_code == 200, given.text
        self.outcome.should(given.json()["expires_in"] <= 3_600, "a token of more than an hour")
        self.token = given.json()["access_token"]

    def ask(self, method: str, address: str, body: Any = None, token: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if isinstance(body, str):
            return self.client.request(method, address, content=body, headers={**headers, "Content-Type": "application/json"})
        return self.client.request(method, address, json=body, headers=headers)

    @property
    def wanted(self) -> dict[str, Any]:
        """The stream that the suite asks for."""
        delivery: dict[str, Any] = {"method": self.method}
        if self.method == PUSH:
            delivery["endpoint_url"] = f"https://localhost:{self.port}/ssf-push"
            if self.header is not None:
                delivery["authorization_header"] = self.header
        return {"description": "Stream for OIDF Conformance Test-Suite", "events_requested": list(ASKED), "delivery": delivery}

    def at_configuration(self, method: str, body: Any = None, *, token: str | None = None, of: str | None = None) -> httpx.Response:
        """`of` is the stream in the address."""
        address = self.metadata["configuration_endpoint"]
        return self.ask(method, address if of is None else f"{address}?stream_id={of}", body, token)

    @property
    def id(self) -> str:
        return str(self.stream["stream_id"])

    def create(self) -> dict[str, Any]:
        """With the conditions of each creation."""
        answer = self.at_configuration("POST", self.wanted)
        assert answer.status_code == 201, answer.text
        assert is_json(answer)
        self.stream = answer.json()
        assert {"stream_id", "iss", "aud", "events_delivered", "delivery"} <= self.stream.keys()
        assert self.stream["iss"] == self.metadata["issuer"]
        assert self.stream["delivery"]["method"] == self.method
        return self.stream

    def read(self) -> dict[str, Any]:
        answer = self.at_configuration("GET", of=self.id)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        assert told["iss"] == self.metadata["issuer"]
        assert told["delivery"]["method"] == self.method
        assert set(told["events_supported"]) <= {f"{CAEP}{one}" for one in _OFFERED[:2]} | {f"{RISC}{one}" for one in _OFFERED[2:]} | {
            f"{RISC}account-purged"
        }
        return told

    def delete(self) -> None:
        assert self.at_configuration("DELETE", of=self.id).status_code == 204

    def status(self, **told: str) -> dict[str, Any]:
        """Reads the status, or sets it. The suite names the stream in the address, too."""
        address = f"{self.metadata['status_endpoint']}?stream_id={self.id}"
        answer = self.ask("POST", address, {"stream_id": self.id, **told}) if told else self.ask("GET", address)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def verify(self) -> str:
        """Asks for a verification, and returns the state that has to come back. A second one waits for as long as the stream says."""
        wait = self.asked_at + self.stream.get("min_verification_interval", 0) - time.monotonic()
        if self.asked_at and wait > 0:
            time.sleep(wait)
        state = str(uuid4())
        answer = self.ask("POST", self.metadata["verification_endpoint"], {"stream_id": self.id, "state": state})
        assert answer.status_code == 204, answer.text
        self.asked_at = time.monotonic()
        return state

    def next_push(self) -> HeardSignal:
        heard = self.queue.get(timeout=PATIENCE)
        assert heard.headers["content-type"] == "application/secevent+jwt"
        assert heard.headers.get("authorization") == self.header
        return heard

    def poll(self, *, most: int = 10, ack: list[str] | None = None) -> dict[str, HeardSignal]:
        """RFC 8936 section 2.4: polls, acknowledges, or does both."""
        body: dict[str, Any] = {"maxEvents": most, "returnImmediately": True}
        if ack is not None:
            body["ack"] = ack
        answer = self.ask("POST", self.stream["delivery"]["endpoint_url"], body)
        assert answer.status_code == 200, answer.text
        assert is_json(answer)
        return {name: HeardSignal(token) for name, token in answer.json()["sets"].items()}

    def soon(self) -> dict[str, HeardSignal]:
        """Polls until something is there, as the suite waits for five seconds."""
        until = time.monotonic() + PATIENCE
        while not (found := self.poll()) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    def is_signal(self, heard: HeardSignal) -> dict[str, Any]:
        """The conditions of each security event token. Returns its claims."""
        header = jwt.get_unverified_header(heard.token)
        assert header["typ"] == "secevent+jwt"
        assert header["alg"] == "RS256"
        claims: dict[str, Any] = jwt.decode(
            heard.token,
            self.keys[header["kid"]].key,
            algorithms=["RS256"],
            audience=self.stream["aud"],
            issuer=self.stream["iss"],
            leeway=1,
        )
        assert len(claims["events"]) == 1
        assert not {"sub", "exp"} & claims.keys()
        assert claims["iat"] <= time.time() + 1
        assert claims["aud"] == self.stream["aud"]
        assert claims["txn"]
        return claims

    def is_verification(self, heard: HeardSignal, state: str) -> None:
        claims = self.is_signal(heard)
        assert claims["sub_id"] == {"format": "opaque", "id": self.id}
        assert heard.event == VERIFICATION
        assert heard.facts["state"] == state

    def is_caep(self, heard: HeardSignal) -> str:
        """The conditions of CAEP 1.0. Returns the type of the event."""
        self.is_signal(heard)
        facts = heard.facts
        assert isinstance(facts["event_timestamp"], int)
        assert facts.get("initiating_entity", "user") in {"admin", "user", "policy", "system"}
        for name in ("reason_admin", "reason_user"):
            assert name not in facts or (facts[name] and all(isinstance(one, str) for one in facts[name].values()))
        if heard.event.endswith("/credential-change"):
            kinds = {"password", "pin", "x509", "fido2-platform", "fido2-roaming", "fido-u2f", "verifiable-credential", "phone-voice"}
            self.outcome.should(facts["credential_type"] in kinds | {"phone-sms", "app"}, "another kind of credential")
            self.outcome.should(facts["change_type"] in {"create", "revoke", "update", "delete"}, "another change")
        return heard.event


def invalid(token: str) -> str:
    """As the suite makes a token that is none."""
    return f"invalid-{token[:20]}"


def receiver_of(installation: AskedServer) -> SuiteClient:
    """The application that hears, for which Alice turns signals on."""
    with installation.client() as client:
        signed_in = client.post("/api/auth/login", json={"email": ALICE, "password": PASSWORD}).json()
        bearer = {"Authorization": f"Bearer {signed_in['access_token']}"}
        service = {"slug": _APPLICATION, "name": "Receiver", "service_type": "web", "redirect_uris": [CALLBACK]}
        made = client.post("/api/organizations/acme/services", json=service, headers=bearer)
        assert made.is_success, made.text
        secret = client.post(f"{_SERVICE}/client-secrets", json={}, headers=bearer).json()["client_secret"]
        turned_on = client.put(f"{_SERVICE}/signals", json={"events": list(_OFFERED), "hosts": ["localhost"]}, headers=bearer)
        assert turned_on.is_success, turned_on.text
        return SuiteClient(made.json()["service"]["client_id"], secret)
