"""Acme and globex, with our name server and our web server, which publish the proofs of their domains."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpcore

from adapters.outbound.client import GuardedClient
from adapters.outbound.dialer import Dialer, SystemNames
from core.frozen import replace
from core.usecases.tenancy.domains import DomainProofs, DomainRoutes, Domains
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.name_server import name_server

PUBLIC: Final = "93.184.215.14"


class LoopbackNetwork(httpcore.AsyncNetworkBackend):
    """Every address leads to this port on loopback, if plain HTTP is spoken there."""

    def __init__(self) -> None:
        self.connects: list[tuple[str, int]] = []
        self.port = 1

    async def connect_tcp(self, host: str, port: int, *_others: Any, **_more: Any) -> httpcore.AsyncNetworkStream:
        self.connects.append((host, port))
        return await httpcore.TrioBackend().connect_tcp("127.0.0.1", self.port if port == 80 else 1)


class Provers(Neighbours):
    records: dict[tuple[str, str], Sequence[str]]
    failing: set[str]
    """The names of which no name server says anything."""
    network: LoopbackNetwork

    def publish(self, *told: Mapping[str, Any]) -> None:
        """Publishes these texts as TXT records."""
        for one in told:
            name = (one["txt_name"], "TXT")
            self.records[name] = [*self.records.get(name, ()), f'"{one["txt_value"]}"']

    def withdraw(self, told: Mapping[str, Any]) -> None:
        del self.records[told["txt_name"], "TXT"]


ProvingScene = TypeVar("ProvingScene", bound=Provers)


@asynccontextmanager
async def proving(
    kind: type[ProvingScene], postern: Postern, people: People, log: CapturedLog, tmp_path: Path, *names: str
) -> AsyncIterator[ProvingScene]:
    """An installation in which these names lead to a public address."""
    records: dict[tuple[str, str], Sequence[str]] = {(name, "A"): [PUBLIC] for name in names}
    failing: set[str] = set()
    network = LoopbackNetwork()
    foundation = postern.foundation
    async with name_server(records, failing) as resolver:
        system = SystemNames(tmp_path / "none", resolver)
        client = GuardedClient(Dialer(system, (), None, network))
        proofs = DomainProofs(
            foundation.unit_of_work,
            client,
            system,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=foundation.clock,
            text_hosts=postern.tenancy.own_texts.hosts,
        )
        tenancy = replace(
            postern.tenancy,
            domains=Domains(foundation.unit_of_work, foundation.stores.domains, proofs, foundation.system),
            domain_routes=DomainRoutes(foundation.unit_of_work, foundation.stores.domain_routes, proofs, foundation.system),
        )
        tenancy = replace(
            tenancy,
            domain_drafts=replace(tenancy.domain_drafts, proofs=proofs),
            setup_drafts=replace(tenancy.setup_drafts, activations=replace(tenancy.setup_drafts.activations, proofs=proofs)),
        )
        services = replace(postern.services, resource_servers=replace(postern.services.resource_servers, proofs=proofs))
        changed = replace(postern, tenancy=tenancy, services=services)
        scene = kind(changed, people, unlimited(changed), log)
        scene.records, scene.failing, scene.network = records, failing, network
        yield scene
        await client.aclose()
