"""The product on a stock Hypercorn worker, as `entrypoints/asgi.py` describes it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.free_ports import free_port
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, alive, until
from tests.e2e.test_serve import KEYS

OWNER = "owner@postern.local"


@pytest.fixture
def on_hypercorn(e2e_directory: Path, installation: Installation) -> Iterator[Postern]:
    address = f"127.0.0.1:{free_port()}"
    server = Postern(
        installation.copy(e2e_directory, "on-hypercorn"),
        ["--worker-class", "trio", "--bind", address, "entrypoints.asgi:application()"],
        {"POSTERN_BASE_URL": f"http://{address}", "POSTERN_MAIL": f"file:{e2e_directory / 'mail'}"},
        command=(sys.executable, "-m", "hypercorn"),
    )
    yield server
    server.close()


def test_a_stock_worker_serves_the_whole_product(on_hypercorn: Postern, installation: Installation, e2e_directory: Path) -> None:
    server = on_hypercorn
    server.start()
    tokens = server.post("/api/auth/login", {"email": OWNER, "password": installation.owner_password}).json()
    assert server.get("/api/user", token=tokens["access_token"]).json()["email"] == OWNER
    assert (server.get("/api/user").status, server.get("/ui/sign-in").status, server.get("/nowhere").status) == (401, 200, 404)
    # The actors work: one of them mails.
    assert server.post("/api/auth/forgot-password", {"email": OWNER}).status == 200
    until(lambda: list((e2e_directory / "mail").glob("*.eml")))
    postgres = server.postgres()
    assert server.stop() == 0
    assert server.logged("embedded_postgres_stopped")
    assert not alive(postgres)


def test_a_start_that_fails_says_why(on_hypercorn: Postern) -> None:
    server = on_hypercorn
    server.settings = {**server.settings, "POSTERN_ENCRYPTION_KEYS": KEYS}
    server.start(wait=False)
    # Hypercorn's own status of a start that failed is 0, too.
    server.ended()
    assert "Lifespan failure in startup. 'The encryption keys (test) do not belong to this database" in server.err.read_text()
    server.expected_errors |= {line["event"] for line in server.log()}
