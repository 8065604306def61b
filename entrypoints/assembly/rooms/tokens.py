"""The token endpoint: one grant for each way to come to a token."""

from actors.recorders import PresenceWriter
from adapters.postgres.identity.upstream.providers import PostgresIssuingConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.tenancy.management_keys import TRUSTED_ISSUERS, PostgresKeyUse
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, CIBA, REFRESH_TOKEN
from core.domain.identifiers import TrustedIssuerId
from core.frozen import Frozen
from core.usecases.federation.grants import Exchanges, Grant, Grants, RefreshGrant, Workloads
from core.usecases.federation.identity_assertions import IdentityAssertions
from core.usecases.tenancy.management_keys import KeyTokens
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.assembly.rooms.applications import Applications
from entrypoints.settings import Settings


class TokenRoom(Frozen, kw_only=True):
    grants: Grants
    assertions: IdentityAssertions
    workloads: Workloads
    trusted_issuer_presence: PresenceWriter[TrustedIssuerId]


def assemble_tokens(
    settings: Settings, foundation: Foundation, identity: Identity, applications: Applications, key_tokens: KeyTokens
) -> TokenRoom:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system = foundation.system
    # To add a grant type, add a line here.
    by_type: dict[str, Grant] = {
        AUTHORIZATION_CODE: applications.codes.redeem,
        REFRESH_TOKEN: RefreshGrant(identity.sessions),
        CIBA: applications.afar_requests.redeem,
    }
    exchanges = Exchanges(
        new_unit_of_work,
        stores.exchanges,
        foundation.token_verifier,
        foundation.token_signer,
        foundation.metrics,
        system=system,
        issuer=settings.public_url,
        access_lifetime=settings.access_token_lifetime,
    )
    assertions = IdentityAssertions(
        new_unit_of_work,
        PostgresIssuingConnections(pool),
        PostgresUpstreamSignIn(pool),
        foundation.upstreams,
        signatures=foundation.assertions,
        clients=applications.lookup,
        resources=applications.resources,
        devices=identity.devices,
        realms=identity.realms,
        sessions=identity.sessions,
        signer=foundation.token_signer,
        recorder=identity.connection_recorder,
        metrics=foundation.metrics,
        system=system,
        issuer=settings.public_url,
    )
    grants = Grants(
        by_type,
        identity.sessions,
        applications.resources,
        exchanges,
        assertions,
        foundation.token_signer,
        foundation.metrics,
        system=system,
        issuer=settings.public_url,
        access_lifetime=settings.access_token_lifetime,
    )
    presence: PresenceWriter[TrustedIssuerId] = PresenceWriter(
        PostgresKeyUse(pool, TRUSTED_ISSUERS), foundation.metrics, spread=foundation.secrets.spread, name="trusted_issuer_presence"
    )
    return TokenRoom(
        grants=grants,
        assertions=assertions,
        workloads=Workloads(
            stores.trusted_issuers,
            applications.lookup,
            foundation.assertions,
            grants,
            key_tokens,
            presence,
            metrics=foundation.metrics,
            system=system,
        ),
        trusted_issuer_presence=presence,
    )
