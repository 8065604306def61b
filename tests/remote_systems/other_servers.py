"""Far sides that nobody of this project has written, and Postern's own: people are sent to them as to the server of the tests."""

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ops.free_ports import free_port
from tests.http.client import Client
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People, Person
from tests.http.running_server import running
from tests.http.signing_in import UNLIMITED
from tests.http.tenants import Tenant, Tenants
from tests.patience import PATIENCE

TOKEN: Final = "token-of-another-author-4c1d"


@dataclass(frozen=True, slots=True)
class OtherRemoteSystem:
    """Whoever asks it, asks by its own interface."""

    url: str
    token: str

    def everybody(self) -> list[dict[str, Any]]:
        """Its people, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.ask(f"/Users?startIndex={len(found) + 1}&count=100")
            found += page.get("Resources", [])
            if len(found) >= page["totalResults"]:
                return found

    def named(self, user_name: str) -> dict[str, Any] | None:
        found = self.ask(f"/Users?filter={quote(f'userName eq {json.dumps(user_name)}')}").get("Resources", [])
        assert len(found) <= 1, found
        return found[0] if found else None

    def active(self) -> set[str]:
        return {one["userName"] for one in self.everybody() if one["active"]}

    def delete(self, number: str) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        with urlopen(Request(f"{self.url}/Users/{number}", headers=headers, method="DELETE"), timeout=PATIENCE):  # noqa: S310 - loopback
            pass

    def ask(self, path: str) -> dict[str, Any]:
        request = Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310 - loopback
        with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            body: dict[str, Any] = json.load(answer)
            return body


@contextmanager
def another_authors_server() -> Iterator[OtherRemoteSystem]:
    """`scim2-server` of the registry, in a process of its own."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("scim2-server")), "--port", str(port), "--bearer-token", TOKEN]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            remote_system = OtherRemoteSystem(f"http://127.0.0.1:{port}/v2", TOKEN)
            _until_it_answers(remote_system, process)
            yield remote_system
        finally:
            process.kill()


def _until_it_answers(remote_system: OtherRemoteSystem, process: "subprocess.Popen[bytes]") -> None:
    pause = threading.Event()
    while True:
        with suppress(OSError):
            remote_system.ask("/ServiceProviderConfig")
            return
        assert process.poll() is None, "the server has ended"
        pause.wait(0.05)


@dataclass(frozen=True, slots=True)
class RemotePostern:
    """A second installation, and an organization there whose people come from elsewhere."""

    postern: Postern
    people: People
    client: Client
    tenant: Tenant
    owner: Person
    url: str
    """Where its SCIM server answers."""

    async def connected(self) -> OtherRemoteSystem:
        """Its owner makes a token for SCIM."""
        path = f"/api/organizations/{self.tenant.slug}/scim-tokens"
        made = await self.client.post(path, {"name": "Postern"}, token=await self.people.token(self.owner))
        return OtherRemoteSystem(self.url, made.ok()["token"])


@asynccontextmanager
async def another_postern(database_url: str, directory: Path, slug: str = "customer") -> AsyncIterator[RemotePostern]:
    """Postern on a database of its own, at a port of its own."""
    async with postern_on(database_url, directory) as postern:
        await with_keys(postern)
        application = build_application(postern, UNLIMITED)
        with People(postern, database_url) as people:
            tenants = Tenants(postern, people)
            tenant = tenants.add(slug)
            owner = tenants.join(people.add(f"owner@{slug}.example"), tenant, "owner")
            async with running(application) as server:
                url = f"http://127.0.0.1:{server.port}/scim/v2"
                yield RemotePostern(postern, people, Client(application), tenant, owner, url)
