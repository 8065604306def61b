"""API keys over two serving processes: the next request sees that a key has ended, in either of them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adapters.postgres.embedded import EmbeddedPostgres
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, command, copy, until

Serve = Callable[..., Postern]
EMAIL, PASSWORD = "keeper@postern.local", "correct-horse-battery"
SERVICES = "/api/organizations/firm/services"
# New connections, spread by the kernel: that all of them reach one process has a chance of 1 in 2^23.
CONNECTIONS = 24


@dataclass
class Firm:
    """An organization with one member, at a server of two processes."""

    server: Postern
    token: str

    def ask(self, method: str, path: str, body: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = self.server._request(method, path, 10, headers, body)
        assert answer.status in {200, 201, 204}, answer.body
        return answer.json() if answer.body else None

    def service(self, slug: str) -> None:
        self.ask("POST", SERVICES, f'{{"slug": "{slug}", "name": "A service", "service_type": "api"}}')

    def key(self, slug: str) -> dict[str, Any]:
        made: dict[str, Any] = self.ask(
            "POST", f"{SERVICES}/{slug}/api-keys", '{"name": "Backend", "permissions": ["read:subscriptions"], "expires_in_days": 1}'
        )
        assert self.opens(made) == {200}
        return made

    def opens(self, key: dict[str, Any]) -> set[int]:
        """The answers of both processes to the key."""
        statuses = Counter(
            self.server._request("GET", "/api/service/subscriptions", 10, {"X-Api-Key": key["key"]}).status for _ in range(CONNECTIONS)
        )
        return set(statuses)

    def change(self, statement: str, *values: Any) -> None:
        with psycopg.connect(EmbeddedPostgres(self.server.data_dir).application_url) as connection:
            connection.execute(statement.encode(), values)

    def postern(self, *words: str) -> str:
        done = command(self.server.data_dir, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def firm(serve: Serve, installation: Installation, e2e_directory: Path) -> Iterator[Firm]:
    data_dir = copy(installation.data_dir, e2e_directory / "api-keys")
    server = serve("--processes", "2", data_dir=data_dir, POSTERN_ORG_AUTO_APPROVE="on")
    assert command(data_dir, "owner", "create", "--email", EMAIL, given=f"{PASSWORD}\n").returncode == 0
    token = server.post("/api/auth/login", {"email": EMAIL, "password": PASSWORD}).json()["access_token"]
    founded = server.post("/api/organizations", {"slug": "firm", "name": "Firm"}, token=token)
    assert founded.status == 200, founded.body
    yield Firm(server, founded.json()["access_token"])
    assert server.stop() == 0


def test_what_ends_a_key_ends_it_in_both_processes(firm: Firm) -> None:
    for slug in ("shop", "app"):
        firm.service(slug)
    beside = firm.key("app")

    deleted = firm.key("shop")
    firm.ask("DELETE", f"{SERVICES}/shop/api-keys/{deleted['id']}")
    assert firm.opens(deleted) == {401}

    revoked = firm.key("shop")
    told = firm.postern("api-key", "revoke", "--prefix", revoked["prefix"])
    assert told == f"{revoked['prefix']} (Backend), a key of shop of firm, is deleted and refused from now on.\n"
    assert firm.opens(revoked) == {401}

    expired = firm.key("shop")
    firm.change("update api_keys set expires_at = now() where id = %s", expired["id"])
    assert firm.opens(expired) == {401}

    weaker = firm.key("shop")
    firm.change("update api_keys set permissions = '{read:users}' where id = %s", weaker["id"])
    assert firm.opens(weaker) == {403}

    of_shop = firm.key("shop")
    firm.postern("organization", "suspend", "--organization", "firm")
    assert firm.opens(of_shop) == firm.opens(beside) == {403}
    firm.postern("organization", "activate", "--organization", "firm")
    assert firm.opens(of_shop) == firm.opens(beside) == {200}

    firm.ask("DELETE", f"{SERVICES}/shop")
    assert firm.opens(of_shop) == firm.opens(weaker) == {401}
    assert firm.opens(beside) == {200}

    # Both wrote down when it was used last, and once: it was made less than a minute ago, or it was more than once.
    (listed,) = until(lambda: [one for one in firm.ask("GET", f"{SERVICES}/app/api-keys")["api_keys"] if one["last_used_at"]])
    assert listed["id"] == beside["id"]

    logged = firm.server.err.read_text()
    for key in (beside, deleted, revoked, expired, weaker, of_shop):
        assert key["key"].rpartition("_")[2] not in logged
    assert re.search(r'"route": ?"/api/service/subscriptions"', logged)
