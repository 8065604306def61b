"""How forms and pages show whose documents an organization and its APIs let in."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.outbound.metadata_clients import MetadataClients
from entrypoints.http.pages.console.cells import Column, Tone, listed, state
from entrypoints.http.pages.console.forms import Asked, Choice
from entrypoints.http.pages.console.visit import PageVisit

_SAID: Final[Mapping[MetadataClients, tuple[str, Tone]]] = {
    MetadataClients.OFF: ("console.metadata_clients.off", Tone.PLAIN),
    MetadataClients.NAMED: ("console.metadata_clients.named", Tone.GOOD),
    MetadataClients.ANY: ("console.metadata_clients.any", Tone.WARN),
}


async def _choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(said)) for one, (said, _) in _SAID.items()]


CLIENTS: Final = Asked("metadata_clients", choices=_choices, hint="console.metadata_clients.hint")
HOSTS: Final = Asked("metadata_hosts", hint="console.metadata_clients.hosts_hint", under=("metadata_clients", MetadataClients.NAMED))
SHOWN: Final[Sequence[Column]] = (state("metadata_clients", _SAID, "console.field.metadata_clients"), listed("metadata_hosts"))
