"""A connection whose metadata are read again, and the servers of metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import trio
import xmlsec

from actors.sweepers import DueSweeper, connection_refresher
from core.domain.outbound import OutboundDestination
from core.domain.saml import fingerprint as of_pem
from core.frozen import replace
from core.usecases.tenancy.connections.lifecycle import DirectoryMetadataReader
from core.usecases.tenancy.connections.refreshes import ConnectionRefreshes
from ops.stand_ins.fake_directory import ENTITY, SSO
from ops.stand_ins.saml import DS, SAMLP, document, pair, template, written
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.actors.observed import RememberedMetrics
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.federation.providing import MD
from tests.http.postbox import Postbox
from tests.usecases.set_clock import SetClock

ADDRESS: Final = "https://login.acme.example/saml/metadata"
REDIRECT: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
OLD, NEW, NEXT = "directory of acme", "newer directory of acme", "third directory of acme"


def metadata(*names: str, signer: str = "", entity: str = ENTITY, until: str = "") -> bytes:
    keys = "".join(
        f'<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="{DS}"><ds:X509Data><ds:X509Certificate>{pair(name).bare}'
        "</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>"
        for name in names
    )
    text = (
        f'<md:EntityDescriptor xmlns:md="{MD}" ID="_m" entityID="{entity}"{until}>'
        f'<md:IDPSSODescriptor protocolSupportEnumeration="{SAMLP}">{keys}'
        f'<md:SingleSignOnService Binding="{REDIRECT}" Location="{SSO}"/></md:IDPSSODescriptor></md:EntityDescriptor>'
    )
    if not signer:
        return text.encode()
    root = document(text)
    signature = template("#_m", certificate=pair(signer))
    root.insert(0, signature)
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(pair(signer).key, xmlsec.constants.KeyDataFormatPem)
    context.register_id(root, "ID")
    context.sign(signature)
    return written(root).encode()


def fingerprint(name: str) -> str:
    return of_pem(pair(name).certificate)


Answer = bytes | OutboundFailed | OutboundAnswer


@dataclass
class FakeOutbound:
    """Metadata servers, by their addresses."""

    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    forbidden: str = "10.0.0.1"

    def may_call(self, destination: OutboundDestination) -> bool:
        return destination.host != self.forbidden

    async def post(self, request: OutboundRequest, timeout: timedelta) -> OutboundAnswer:
        raise AssertionError(request, timeout)

    async def send(self, method: str, request: OutboundRequest, timeout: timedelta, *, most: int) -> OutboundAnswer:
        raise AssertionError(method, request, timeout, most)

    async def get(
        self,
        destination: OutboundDestination,
        timeout: timedelta,
        *,
        most: int,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> OutboundAnswer:
        await trio.lowlevel.checkpoint()
        assert timeout <= timedelta(seconds=10)
        assert "samlmetadata" in headers["accept"]
        address = f"{destination.scheme}://{destination.authority}{destination.target}"
        self.asked.append(address)
        page = self.pages.get(address, OutboundFailed(Failure.UNREACHABLE))
        if isinstance(page, OutboundFailed):
            raise page
        return page if isinstance(page, OutboundAnswer) else OutboundAnswer(200, {}, page[: most + 1])


def leading(to: str) -> OutboundAnswer:
    return OutboundAnswer(302, {"location": to}, b"")


@dataclass
class Refreshing:
    """A connection of Acme with the address of its metadata, and the refresher."""

    scene: ConnectionScene
    outbound: FakeOutbound
    clock: SetClock
    metrics: RememberedMetrics
    refreshes: ConnectionRefreshes
    provider: str = ""

    async def sweep(self, refreshes: ConnectionRefreshes | None = None) -> int:
        """One round, in which every connection is due."""
        self.due()
        return await self.refresher(refreshes).sweep()

    def due(self) -> None:
        self.scene.people.change("update upstream_providers set refresh_at = %s", self.clock.at)

    def refresher(self, refreshes: ConnectionRefreshes | None = None) -> DueSweeper:
        return connection_refresher(refreshes or self.refreshes, metrics=self.metrics, spread=lambda: 0.0)

    def publish(self, page: Answer, at: str = ADDRESS) -> None:
        self.outbound.pages[at] = page

    async def record(self) -> dict[str, Any]:
        listed = (await self.scene.request("GET", PATH)).json()
        return next(one for one in listed if one["id"] == self.provider)

    async def certificates(self) -> tuple[list[str], list[str]]:
        """The fingerprints of those that count, and of those that wait."""
        saml = (await self.record())["saml"]
        return [one["fingerprint"] for one in saml["certificates"]], [one["fingerprint"] for one in saml["waiting_certificates"]]

    def events(self) -> list[str]:
        start = "organization.upstream_provider."
        events = self.scene.audited(f"{start}certificates.%") + self.scene.audited(f"{start}metadata.%")
        return [str(one["action"]).removeprefix(start) for one in events]

    def later(self, **by: float) -> None:
        self.clock.at += timedelta(**by)

    async def mails(self) -> list[Any]:
        return list(await Postbox(self.scene.postern).empty())


async def refreshing_of(scene: ConnectionScene) -> Refreshing:
    """An active connection of Acme. No metadata are published yet."""
    outbound, metrics = FakeOutbound(), RememberedMetrics()
    clock = SetClock(scene.postern.foundation.clock.now())
    ready = scene.postern.tenancy.connection_refreshes
    refreshes = replace(ready, reader=DirectoryMetadataReader(outbound, ready.documents), clock=clock, metrics=metrics, spread=lambda: 0.0)
    refreshing = Refreshing(scene, outbound, clock, metrics, refreshes)
    refreshing.provider = await scene.active(metadata_url=ADDRESS)
    await refreshing.mails()
    return refreshing
