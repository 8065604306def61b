"""How forms and pages show whose documents an organization and its APIs let in, and whether programs that register themselves."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.outbound import MetadataClients, RegisteredClients
from entrypoints.http.pages.console.cells import Column, Tone, listed, state
from entrypoints.http.pages.console.forms import Asked, Choice
from entrypoints.http.pages.console.visit import PageVisit

_SAID: Final[Mapping[MetadataClients, tuple[str, Tone]]] = {
    MetadataClients.OFF: ("console.metadata_clients.off", Tone.PLAIN),
    MetadataClients.NAMED: ("console.metadata_clients.named", Tone.GOOD),
    MetadataClients.ANY: ("console.metadata_clients.any", Tone.WARN),
}


_REGISTERED: Final[Mapping[RegisteredClients, tuple[str, Tone]]] = {
    RegisteredClients.OFF: ("console.metadata_clients.registered_off", Tone.PLAIN),
    RegisteredClients.ON: ("console.metadata_clients.registered_on", Tone.WARN),
}


async def _choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(said)) for one, (said, _) in _SAID.items()]


async def _registered_choices(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, visit.text(said)) for one, (said, _) in _REGISTERED.items()]


CLIENTS: Final = Asked("metadata_clients", choices=_choices, hint="console.metadata_clients.hint")
HOSTS: Final = Asked("metadata_hosts", hint="console.metadata_clients.hosts_hint")
REGISTERED: Final = Asked("registered_clients", choices=_registered_choices, hint="console.metadata_clients.registered_hint")
SHOWN: Final[Sequence[Column]] = (
    state("metadata_clients", _SAID, "console.field.metadata_clients"),
    state("registered_clients", _REGISTERED, "console.field.registered_clients"),
    listed("metadata_hosts"),
)
