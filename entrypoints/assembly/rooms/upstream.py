"""Sign-in through upstream providers: what their proofs, connected accounts and the home realms share."""

import trio

from actors.recorders import ConnectionExchangeWriter
from adapters.postgres.identity.realms import PostgresRealmProviders, PostgresRealms
from adapters.postgres.identity.upstream.connections import PostgresConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from core.frozen import Frozen
from core.usecases.identity.realms import HomeRealms
from core.usecases.identity.upstream.further_sign_ins import NewcomerWords
from core.usecases.identity.upstream.identities import LinkedIdentities
from core.usecases.identity.upstream.journeys import Journeys
from core.usecases.identity.upstream.provider_tokens import IdentityGrants
from core.usecases.identity.upstream.providers import FurtherOffers, ProviderLooks, ProviderOutages, UpstreamProviders
from entrypoints.assembly.configured import installed_providers, with_client
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings


class UpstreamParts(Frozen, kw_only=True):
    providers: UpstreamProviders
    realms: HomeRealms
    lookup: PostgresUpstreamSignIn
    connections: PostgresConnections
    recorder: ConnectionExchangeWriter
    journeys: Journeys
    linked: LinkedIdentities
    grants: IdentityGrants
    newcomers: NewcomerWords


def assemble_upstream(settings: Settings, foundation: Foundation) -> UpstreamParts:
    """Raises `SettingsError`."""
    pool, clock, system = foundation.pool, foundation.clock, foundation.system
    installed = installed_providers(settings)
    outages = ProviderOutages(foundation.unit_of_work, foundation.metrics, clock)
    further = FurtherOffers(foundation.stores.further_providers, trio.current_time)
    providers = UpstreamProviders(installed, foundation.keyring, further)
    lookup, connections = PostgresUpstreamSignIn(pool), PostgresConnections(pool)
    recorder = ConnectionExchangeWriter(connections, foundation.metrics, spread=foundation.secrets.spread)
    return UpstreamParts(
        providers=providers,
        realms=HomeRealms(
            PostgresRealms(pool),
            PostgresRealmProviders(pool, clock, configured=with_client(installed)),
            ProviderLooks(outages, foundation.upstreams, {one.value: known.endpoints for one, known in installed.items()}),
        ),
        lookup=lookup,
        connections=connections,
        recorder=recorder,
        journeys=Journeys(
            lookup,
            foundation.upstreams,
            providers=providers,
            outages=outages,
            server_secrets=foundation.server_secrets,
            recorder=recorder,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
        linked=LinkedIdentities(templates=foundation.mail_templates, system=system),
        grants=IdentityGrants(foundation.stores.identity_grants, foundation.keyring, clock),
        newcomers=NewcomerWords(foundation.unit_of_work, foundation.keyring, system),
    )
