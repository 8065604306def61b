"""The metadata of a directory, fetched again from the address that was set."""

from datetime import timedelta
from typing import Final
from urllib.parse import urljoin

from core.domain.errors import BadRequest
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.refreshes import MOST_REDIRECTS, READ_WITHIN, Read, RefreshFault, way_taken
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination
from core.domain.saml.entities import LONGEST_METADATA
from core.frozen import Frozen
from ports.identity.upstream.saml import ServiceProviderDocuments
from ports.outbound import Failure, Outbound, OutboundAnswer, OutboundFailed

_ACCEPTED: Final = {"accept": "application/samlmetadata+xml, application/xml, text/xml", "user-agent": "Postern"}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SUCCEEDED: Final = 200


class NotRead(Exception):
    """The metadata do not count. `detail` is for the log."""

    def __init__(self, fault: RefreshFault, detail: str = "") -> None:
        self.fault = fault
        self.detail = detail[:_LONGEST_DETAIL]
        super().__init__(fault.value)


_LONGEST_DETAIL: Final = 300


class DirectoryMetadataReader(Frozen):
    outbound: Outbound
    documents: ServiceProviderDocuments
    within: timedelta = READ_WITHIN

    async def read(self, settings: SamlSettings) -> Read:
        """Raises `NotRead`, and `Overloaded`."""
        stations, answer = await self._fetched(settings.metadata_url)
        if answer.status != _SUCCEEDED:
            raise NotRead(RefreshFault.STATUS, str(answer.status))
        if len(answer.body) > LONGEST_METADATA:
            raise NotRead(RefreshFault.TOO_LONG)
        try:
            metadata = await self.documents.read_directory(answer.body, settings.trusted)
        except BadRequest as refusal:
            raise NotRead(RefreshFault.NOT_METADATA, refusal.message) from None
        return Read(metadata=metadata, because=way_taken(stations))

    async def _fetched(self, address: str) -> tuple[list[OutboundDestination], OutboundAnswer]:
        """The addresses on the way, and the last answer."""
        stations: list[OutboundDestination] = []
        while True:
            stations.append(self._permitted(address))
            try:
                answer = await self.outbound.get(stations[-1], self.within, most=LONGEST_METADATA, headers=_ACCEPTED)
            except OutboundFailed as failed:
                fault = RefreshFault.REFUSED if failed.failure is Failure.REFUSED else RefreshFault.UNREACHABLE
                raise NotRead(fault, failed.failure.value) from None
            onward = answer.headers.get("location")
            if answer.status not in _REDIRECTS or onward is None or len(stations) > MOST_REDIRECTS:
                return stations, answer
            try:
                address = urljoin(address, onward)
            except ValueError:
                raise NotRead(RefreshFault.REFUSED, "the redirect leads to no address") from None

    def _permitted(self, address: str) -> OutboundDestination:
        try:
            to = destination(address)
        except NotADestination as refusal:
            raise NotRead(RefreshFault.REFUSED, str(refusal)) from None
        if not self.outbound.may_call(to):
            raise NotRead(RefreshFault.REFUSED)
        return to
