"""Acme's and globex's APIs, and clients that publish documents about themselves on a web server on loopback."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import httpcore
import trio

from adapters.outbound.client import GuardedClient
from adapters.outbound.client_documents import ClientMetadataFetcher
from adapters.outbound.dialer import Dialer
from core.domain.outbound import Address
from core.frozen import replace
from entrypoints.bootstrap import Postern
from ops.stand_ins.mail_server import make_certificates
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.client import Received
from tests.http.federation.arriving import left
from tests.http.federation.relying import VERIFIER, Application
from tests.http.federation.resources.asking import ORDERS, Asking
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant
from tests.receiver import Answer, Call, Receiver, answering, receiving

HOST: Final = "app.client.example"
CLIENT: Final = f"https://{HOST}/oauth/client.json"
BACK: Final = "https://app.client.example/back"
ON_DEVICE: Final = "http://127.0.0.1:33418/callback"
INSIDE: Final = "inside.client.example"
JSON: Final = "content-type: application/json"
_APIS: Final = "/api/organizations/acme/resource-servers"
THEIRS: Final = "https://api.globex.example/orders"


class _Names:
    async def addresses(self, host: str) -> Sequence[Address]:
        await trio.lowlevel.checkpoint()
        if host == INSIDE:
            return [ip_address("169.254.169.254")]
        return [ip_address("93.184.215.14")] if host.endswith(".client.example") else []


class _Loopback(httpcore.AsyncNetworkBackend):
    """Every address leads to the web server of the documents."""

    port = 1

    async def connect_tcp(self, host: str, port: int, *_others: Any, **_more: Any) -> httpcore.AsyncNetworkStream:
        del host, port
        return await httpcore.TrioBackend().connect_tcp("127.0.0.1", self.port)


class PublishingClients(Asking):
    """The documents are by their paths. `receiver` has the calls for them."""

    receiver: Receiver
    published: dict[str, Answer]
    owner: Person

    def publish(self, address: str = CLIENT, /, *lines: str, **members: Any) -> None:
        """A document at the address. Members that are None are left out."""
        told = {"client_id": address, "client_name": "Notebook", "redirect_uris": [BACK], "token_endpoint_auth_method": "none", **members}
        body = json.dumps({name: value for name, value in told.items() if value is not None}).encode()
        self.answers(answering(200, body, JSON, *lines), address)

    def answers(self, answer: Answer, address: str = CLIENT) -> None:
        self.published[f"/{address.split('/', 3)[3]}"] = answer

    def let_in(self, tenant: Tenant | None = None, how: str = "any", *hosts: str) -> None:
        tenant = tenant or self.acme
        for table, column in (("all_organizations", "id"), ("resource_servers", "org_id")):
            self.people.change(
                f"update {table} set metadata_clients = %s, metadata_hosts = %s where {column} = %s", how, list(hosts), tenant.id
            )

    def let_registered_in(self, tenant: Tenant | None = None, *hosts: str) -> None:
        """Programs that register themselves, and may lead to these hosts besides the device."""
        tenant = tenant or self.acme
        for table, column in (("all_organizations", "id"), ("resource_servers", "org_id")):
            self.people.change(
                f"update {table} set registered_clients = 'on', metadata_hosts = %s where {column} = %s", list(hosts), tenant.id
            )

    async def registers(self, **members: Any) -> Received:
        """What a program says of itself. Members that are None are left out."""
        told = {"client_name": "Notebook", "redirect_uris": [ON_DEVICE], "token_endpoint_auth_method": "none", **members}
        said = {name: value for name, value in told.items() if value is not None}
        return await self.client.post("/oauth/register", said)

    async def open_client(self, **members: Any) -> str:
        return str((await self.registers(**members)).ok(201)["client_id"])

    def both_let_in(self) -> None:
        """Acme's and globex's API, each open to all documents."""
        for tenant, identifier in ((self.acme, ORDERS), (self.globex, THEIRS)):
            self.api(identifier, tenant)
            self.let_in(tenant)

    def stale(self) -> None:
        """From now on, the documents are fetched again."""
        self.forget()
        self.people.change("update metadata_documents set fresh_until = now() - interval '1 second'")

    def forget(self) -> None:
        """The process remembers no document that nobody has allowed."""
        remembered: Any = self.postern.federation.client_documents.new
        remembered.forget()

    def asks(self, *resources: str, **changed: Any) -> str:
        asked = {"client_id": CLIENT, "redirect_uri": BACK, **changed}
        return self.address(self.client_of(CLIENT), *resources, **asked)

    def client_of(self, address: str = CLIENT) -> Application:
        """As the endpoints of clients see it: a public client."""
        return Application(self.shop.service, address)

    async def consents(self, *resources: str, person: Person | None = None, **changed: Any) -> Tab:
        """The page that asks for consent."""
        tab = await self.browser(person).tab().open(self.asks(*resources, **changed))
        assert tab.place.startswith("/ui/consent"), (tab.place, tab.page.text)
        return tab

    async def code_of(self, *resources: str, person: Person | None = None, back: str = BACK, **changed: Any) -> str:
        tab = await self.consents(*resources, person=person, redirect_uri=back, **changed)
        code = left(await tab.send(answer="allow"), back)["code"]
        self.log.remember(code)
        return code

    async def exchanged(self, code: str, /, address: str = CLIENT, back: str = BACK, **fields: Any) -> Received:
        return await self.redeem(self.client_of(address), code, redirect_uri=back, code_verifier=VERIFIER, **fields)

    async def has_tokens(self, *resources: str, person: Person | None = None, **changed: Any) -> dict[str, Any]:
        return self.kept((await self.exchanged(await self.code_of(*resources, person=person, **changed))).ok())

    async def only_api(self, owner: Person) -> str:
        """The address of acme's only API in the interface."""
        servers: Any = (await self.request("GET", _APIS, by=owner)).json()
        return f"{_APIS}/{servers[0]['id']}"

    def services(self, tenant: Tenant | None = None) -> list[dict[str, Any]]:
        """The metadata clients that there are."""
        rows = self.people.rows("select * from all_services where service_type = 'metadata' and deleted_at is null order by id")
        return [row for row in rows if tenant is None or row["org_id"] == tenant.id]

    def nothing_is_kept(self) -> bool:
        return not self.services() and not self.people.rows("select from metadata_documents")


@asynccontextmanager
async def publishing(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[PublishingClients]:
    certificates = make_certificates(tmp_path, host="*.client.example")
    published: dict[str, Answer] = {}

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        return await published.get(call.target, answering(404))(stream, call)

    network = _Loopback()
    async with receiving(answer, certificates.server_context()) as receiver:
        network.port = receiver.port
        client = GuardedClient(Dialer(_Names(), (), None, network), certificates.authority)
        registrations = replace(postern.federation.open_registrations, is_open=True)
        documents = replace(postern.federation.client_documents, source=ClientMetadataFetcher(client), registrations=registrations)
        asked = replace(postern.federation.authorizations.asked, documents=documents)
        authorizations = replace(postern.federation.authorizations, documents=documents, asked=asked)
        pushed = replace(postern.federation.pushed_requests, asked=asked)
        federation = replace(
            postern.federation,
            client_documents=documents,
            open_registrations=registrations,
            authorizations=authorizations,
            pushed_requests=pushed,
        )
        changed = replace(postern, federation=federation)
        scene = PublishingClients(changed, people, unlimited(changed), log)
        scene.receiver, scene.published = receiver, published
        yield scene
        await client.aclose()
