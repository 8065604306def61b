"""The server that all modules ask: by https, with applications of one organization, as docs/conformance.md tells operators to make them."""

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, Final

import httpx

from ops.free_ports import free_port
from ops.stand_ins.mail_server import Certificates, make_certificates
from tests.conformance.kit.browser import APPLICATION, PersonsBrowser
from tests.e2e.postern import Postern, until
from tests.patience import PATIENCE
from tests.pictures import drawn_png

CALLBACK: Final = f"{APPLICATION}callback"
SIGNED_OUT: Final = f"{APPLICATION}post_logout_redirect"
PASSWORD: Final = "three wet matches"
# The suite's fixture for AuthZEN: two people, of whom one may read and the other may write, too.
ALICE, BOB = "alice@example.org", "bob@example.org"
_ORGANIZATION: Final = "/api/organizations/acme"
_LINK: Final = re.compile(r"https://\S+token=([\w-]+)")


@dataclass(frozen=True, slots=True)
class SuiteClient:
    """What its developers are given."""

    client_id: str
    secret: str


@dataclass(frozen=True, slots=True)
class AskedServer:
    issuer: str
    certificates: Certificates
    metadata: Mapping[str, Any]
    first: SuiteClient
    """`client` of the suite's configuration."""
    second: SuiteClient
    """`client2`."""
    posting: SuiteClient
    """`client_secret_post`."""
    key: str
    """The API key of the service that decides by AuthZEN."""
    decider: str
    """The id of this service; its slug is `records`."""
    alice: str
    bob: str
    token: str
    """Of the organization's owner."""

    def client(self) -> httpx.Client:
        """Keeps no connection: the server may close one that rests at the moment in which it is used again."""
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(timeout=PATIENCE, trust_env=False, verify=trusting(self.certificates), base_url=self.issuer, limits=limits)

    @contextmanager
    def browser(self, email: str = ALICE) -> Iterator[PersonsBrowser]:
        with self.client() as client:
            yield PersonsBrowser(client, email, PASSWORD)


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


class TlsPostern(Postern):
    """`postern serve` by https. Says that it is ready by its address."""

    def wait_until_ready(self) -> None:
        until(lambda: "https://localhost" in self.out.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.err.read_text()


@contextmanager
def installed(place: Path, data: Path, owner_password: str) -> Iterator[AskedServer]:
    """`owner_password` is that of the platform's owner, as the first start printed it."""
    certificates = make_certificates(place)
    port = free_port()
    settings = {
        "POSTERN_BIND": f"127.0.0.1:{port}",
        "POSTERN_BASE_URL": f"https://localhost:{port}",
        "POSTERN_TLS_CERTIFICATE": str(certificates.certificate),
        "POSTERN_TLS_KEY": str(certificates.key),
        "POSTERN_OUTBOUND_CA_FILE": str(certificates.authority),
        "POSTERN_OUTBOUND_NETWORKS": "127.0.0.1/32",
        "POSTERN_RATE_LIMITS": "off",
        "POSTERN_ORG_AUTO_APPROVE": "on",
    }
    server = TlsPostern(data, settings=settings)
    try:
        server.start()
        with httpx.Client(base_url=settings["POSTERN_BASE_URL"], verify=trusting(certificates), timeout=PATIENCE) as client:
            made = _Furnishing(client, data, owner_password).furnish(settings["POSTERN_BASE_URL"], certificates)
        yield made
        assert server.stop() == 0
    finally:
        server.close()


class _Furnishing:
    """What the owner of the organization and its people do by the API and by their mails."""

    def __init__(self, client: httpx.Client, data: Path, owner_password: str) -> None:
        self._client = client
        self._data = data
        self._owner_password = owner_password
        self._token = ""

    def furnish(self, issuer: str, certificates: Certificates) -> AskedServer:
        bob = self._registered(BOB)
        alice = self._registered(ALICE)
        names = {"name": "Alice Adams", "given_name": "Alice", "family_name": "Adams", "username": "alice.adams"}
        self._ask("PATCH", "/api/user", {**names, "zoneinfo": "Europe/Berlin", "language": "en"})
        PersonsBrowser(self._client, ALICE, PASSWORD).upload("/ui/profile/picture", "picture", drawn_png())
        founded = self._ask("POST", "/api/organizations", {"slug": "acme", "name": "Acme"})
        self._token = self._signed_in("owner@postern.local", self._owner_password)
        tier = max(self._ask("GET", "/api/platform/tiers"), key=lambda tier: int(tier["default_max_services"]))["id"]
        self._ask("PATCH", f"/api/platform/organizations/{founded['organization']['id']}/tier", {"tier_id": tier})
        self._token = founded["access_token"]
        first, second, posting = (self._application(slug) for slug in ("first", "second", "posting"))
        decider = self._made("records")["id"]
        key = self._decided(alice, bob)
        metadata = self._client.get("/.well-known/openid-configuration").json()
        return AskedServer(issuer, certificates, metadata, first, second, posting, key, decider, alice, bob, self._token)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        bearer = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        answer = self._client.request(method, path, json=body, headers=bearer)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _registered(self, email: str) -> str:
        """Registers the person, who goes by the link of the mail and signs in. Returns their id."""
        self._token = ""
        self._ask("POST", "/api/auth/register", {"email": email, "password": PASSWORD})
        until(lambda: self._client.get("/auth/verify-email", params={"token": self._mailed(email)}).status_code in {200, 303})
        self._token = self._signed_in(email, PASSWORD)
        return str(self._ask("GET", "/api/user")["id"])

    def _signed_in(self, email: str, password: str) -> str:
        self._token = ""
        return str(self._ask("POST", "/api/auth/login", {"email": email, "password": password})["access_token"])

    def _mailed(self, email: str) -> str:
        """The token of the link in the person's mail."""
        return str(until(lambda: next(filter(None, map(_link, self._mails(email))), "")))

    def _mails(self, email: str) -> list[str]:
        read = [message_from_bytes(file.read_bytes(), policy=policy.default) for file in (self._data / "mail").glob("*.eml")]
        bodies = [mail.get_body(("plain",)) for mail in read if email in str(mail["To"])]
        return [body.get_content() for body in bodies if body is not None]

    def _made(self, slug: str, **fields: Any) -> Any:
        return self._ask("POST", f"{_ORGANIZATION}/services", {"slug": slug, "name": slug.title(), "service_type": "web", **fields})[
            "service"
        ]

    def _application(self, slug: str) -> SuiteClient:
        made = self._made(slug, redirect_uris=[CALLBACK], post_logout_redirect_uris=[SIGNED_OUT])
        secret = self._ask("POST", f"{_ORGANIZATION}/services/{slug}/client-secrets", {})["client_secret"]
        return SuiteClient(made["client_id"], secret)

    def _decided(self, alice: str, bob: str) -> str:
        """Alice may read and write, Bob may read. Returns the key of the servers that ask."""
        service = f"{_ORGANIZATION}/services/records"
        asked = {"name": "Gateway", "permissions": ["read:users", "write:users"]}
        key = str(self._ask("POST", f"{service}/api-keys", asked)["key"])
        for permission in ("read", "write"):
            self._ask("POST", f"{service}/permissions", {"key": permission})
        for role, permissions, person, email in (("editor", ["read", "write"], alice, ALICE), ("reader", ["read"], bob, BOB)):
            self._ask("POST", f"{service}/roles", {"slug": role, "name": role.title(), "permissions": permissions})
            added = self._client.post("/api/service/users", json={"email": email}, headers={"X-Api-Key": key})
            assert added.is_success, added.text
            self._ask("POST", f"{service}/assignments", {"role": role, "user_id": person})
        return key


def _link(text: str) -> str:
    found = _LINK.search(text)
    return found[1] if found else ""
