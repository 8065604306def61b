"""Builds the object graph of the application, one immutable `Postern`, without a dependency injection framework. The parts of `Postern`
are opened in a fixed order and closed in the reverse order.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.supervisor import SupervisedActor
from adapters.crypto.key_pairs import PairsAhead
from core.frozen import Frozen, replace
from entrypoints.assembly.actors import assemble_actors
from entrypoints.assembly.federation import Federation, assemble_federation
from entrypoints.assembly.foundation import Foundation, open_foundation
from entrypoints.assembly.identity import Identity, open_identity
from entrypoints.assembly.platform import Platform, assemble_platform
from entrypoints.assembly.record import Record, assemble_record
from entrypoints.assembly.services import Services, assemble_services
from entrypoints.assembly.tenancy import Tenancy, assemble_ownerships, assemble_tenancy
from entrypoints.assembly.traced import with_spans
from entrypoints.settings import Settings


class Postern(Frozen, kw_only=True):
    """The use cases that the HTTP server and the commands call. A serving process runs `actors` and the doorbell's `run`. A command does
    not.
    """

    settings: Settings
    foundation: Foundation
    record: Record
    identity: Identity
    tenancy: Tenancy
    services: Services
    federation: Federation
    platform: Platform
    actors: tuple[SupervisedActor, ...]


@asynccontextmanager
async def open_postern(settings: Settings, ahead: PairsAhead | None = None) -> AsyncIterator[Postern]:
    """Needs the address of the database, but not the database itself: while the database is down, each use case that needs the database
    raises `Unavailable`. Raises `SettingsError` or `StartFailed`.
    """
    async with open_foundation(settings, ahead) as foundation:
        ownerships = assemble_ownerships(foundation)
        with open_identity(settings, foundation, ownerships.decline_in) as identity:
            record = assemble_record(foundation, settings.delivery_retention)
            tenancy = assemble_tenancy(settings, foundation, identity, ownerships)
            services = assemble_services(settings, foundation, ownerships, tenancy.domains.proofs)
            federation = assemble_federation(
                settings,
                foundation,
                identity,
                ownerships,
                key_tokens=tenancy.key_tokens,
                user_key_presence=services.user_key_presence,
            )
            platform = assemble_platform(settings, foundation, identity)
            postern = Postern(
                settings=settings,
                foundation=foundation,
                record=record,
                identity=identity,
                tenancy=tenancy,
                services=services,
                federation=federation,
                platform=platform,
                actors=assemble_actors(
                    foundation,
                    record,
                    identity,
                    tenancy,
                    services,
                    federation=federation,
                    platform=platform,
                    retentions={
                        "login_event_retention": settings.login_event_retention,
                        "delivery_retention": settings.delivery_retention,
                        "event_retention": max(settings.event_retention, settings.delivery_retention),
                    },
                ),
            )
            yield postern if foundation.tracing is None else _traced(postern)


def _traced(postern: Postern) -> Postern:
    return replace(
        postern,
        record=with_spans(postern.record),
        identity=with_spans(postern.identity),
        tenancy=with_spans(postern.tenancy),
        services=with_spans(postern.services),
        federation=with_spans(postern.federation),
        platform=with_spans(postern.platform),
    )
