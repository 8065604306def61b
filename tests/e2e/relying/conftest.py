"""One server, an organization with an application of each kind of client, and a stranger who signs in to them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from joserfc.jwk import ECKey

from adapters.postgres.embedded import EmbeddedPostgres
from ops.browser.signing import SigningBrowser, browser
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy

# Nothing listens at this address, since the browser stops before it.
CALLBACK = "https://app.example/callback"
SIGNED_OUT = "https://app.example/signed-out"
SERVICES = "/api/organizations/acme/services"
EMAIL, PASSWORD = "ada@example.org", "three wet matches"
# An API of the organization, and one more.
API, OTHER_API = "http://127.0.0.1:4000/mcp", "http://127.0.0.1:4000/bills"


@dataclass(frozen=True, slots=True)
class ShownApplication:
    """The data of a service that a member of the organization sees, and gives to the service's developers."""

    client_id: str
    secret: str = ""
    key: ECKey | None = None


@dataclass(frozen=True, slots=True)
class RunningProvider:
    issuer: str
    page: ShownApplication
    """A public client."""
    shop: ShownApplication
    """One with a secret."""
    bank: ShownApplication
    """One with a key."""


@pytest.fixture(scope="session")
def provider(e2e_directory: Path, installation: Installation) -> Iterator[RunningProvider]:
    with provider_on(e2e_directory / "relying", installation) as provider:
        yield provider


@contextmanager
def provider_on(data_dir: Path, installation: Installation, **settings: str) -> Iterator[RunningProvider]:
    settings = {"POSTERN_RATE_LIMITS": "off", "POSTERN_ORG_AUTO_APPROVE": "on", **settings}
    server = Postern(copy(installation.data_dir, data_dir), settings=settings)
    try:
        server.start()
        yield _provided(server, installation.owner_password)
        assert server.stop() == 0
    finally:
        server.close()


def _provided(server: Postern, password: str) -> RunningProvider:
    def ask(path: str, body: dict[str, Any], token: str | None = None) -> Any:
        answer = server.post(path, body, token=token)
        assert answer.status in {200, 201}, answer.body
        return answer.json()

    ask("/api/auth/register", {"email": EMAIL, "password": PASSWORD})
    with psycopg.connect(EmbeddedPostgres(server.data_dir).application_url) as connection:
        connection.execute("update users set email_verified_at = now() where email = %s", [EMAIL])
    token = ask("/api/auth/login", {"email": "owner@postern.local", "password": password})["access_token"]
    token = ask("/api/organizations", {"slug": "acme", "name": "Acme"}, token)["access_token"]
    key = ECKey.generate_key("P-256", {"kid": "first"})

    def application(slug: str, **fields: Any) -> str:
        wanted = {"slug": slug, "name": slug.title(), "service_type": "web", "redirect_uris": [CALLBACK], **fields}
        wanted["post_logout_redirect_uris"] = [SIGNED_OUT]
        return str(ask(SERVICES, wanted, token)["service"]["client_id"])

    page = ShownApplication(application("page"))
    shop = ShownApplication(application("shop", id_token_alg="ES256"), ask(f"{SERVICES}/shop/client-secrets", {}, token)["client_secret"])
    bank = ShownApplication(application("bank", jwks={"keys": [key.as_dict(private=False)]}, assertion_audience="endpoint"), key=key)
    for identifier in (API, OTHER_API):
        scopes = [{"name": name, "description": f"{name} there"} for name in ("orders:read", "orders:write")]
        wanted = {
            "identifier": identifier,
            "name": "Orders",
            "scopes": scopes,
            "service_slug": "shop",
            "admits": "all",
            "exchanges": ["shop"],
        }
        ask("/api/organizations/acme/resource-servers", wanted, token)
    return RunningProvider(f"http://127.0.0.1:{server.port}", page, shop, bank)


@pytest.fixture
def person() -> Iterator[Callable[[], SigningBrowser]]:
    """Opens browsers of the same person."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(browser(EMAIL, PASSWORD))


@pytest.fixture
def ada(person: Callable[[], SigningBrowser]) -> SigningBrowser:
    return person()
