"""Applications that sign people in by OAuth and OpenID Connect: who they are, and what they ask for."""

from actors.recorders import PresenceWriter
from adapters.crypto.signed_by_others import JwtClientAssertions
from adapters.outbound.client_documents import GuardedDocuments, RememberedDocuments, SharedWork
from adapters.postgres.federation.authorizations import PostgresEncounters
from adapters.postgres.federation.clients import (
    PostgresClientDocuments,
    PostgresClients,
    PostgresKeptKeys,
    PostgresRegistrationKeys,
    PostgresUsedAssertions,
)
from adapters.postgres.federation.consents import PostgresResources
from adapters.postgres.services.api_keys import CLIENT_SECRETS
from adapters.postgres.tenancy.management_keys import PostgresKeyUse
from core.domain.federation.afar_requests import PAGE as AFAR_PAGE
from core.domain.federation.oauth.oidc import assertion_endpoints
from core.domain.identifiers import ClientSecretId
from core.frozen import Frozen
from core.usecases.federation.afar_requests import AfarRequests
from core.usecases.federation.authorization_codes import AuthorizationAnswers, AuthorizationCodes
from core.usecases.federation.authorization_requests import AskedAuthorizations
from core.usecases.federation.authorizations import Authorizations
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.clients import Clients, OpenRegistrations
from core.usecases.federation.consents import UnplacedClients
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings


class Applications(Frozen, kw_only=True):
    lookup: PostgresClients
    clients: Clients
    secret_presence: PresenceWriter[ClientSecretId]
    documents: ClientDocuments
    registrations: OpenRegistrations
    documents_lookup: PostgresClientDocuments
    resources: PostgresResources
    encounters: PostgresEncounters
    codes: AuthorizationCodes
    asked: AskedAuthorizations
    authorizations: Authorizations
    afar_requests: AfarRequests


def assemble_applications(settings: Settings, foundation: Foundation, identity: Identity) -> Applications:
    new_unit_of_work, pool, system = foundation.unit_of_work, foundation.pool, foundation.system
    lookup = PostgresClients(pool)
    secret_presence: PresenceWriter[ClientSecretId] = PresenceWriter(
        PostgresKeyUse(pool, CLIENT_SECRETS), foundation.metrics, spread=foundation.secrets.spread, name="client_secret_presence"
    )
    clients = Clients(
        lookup,
        JwtClientAssertions(),
        PostgresUsedAssertions(pool, foundation.ids),
        foundation.key_sets,
        PostgresKeptKeys(pool),
        secret_presence,
        clock=foundation.clock,
        issuer=settings.public_url,
        endpoints=assertion_endpoints(settings.public_url),
    )
    codes = AuthorizationCodes(new_unit_of_work, foundation.stores.authorization_codes, clients, identity.sessions, system=system)
    encounters, resources, documents_lookup = PostgresEncounters(pool), PostgresResources(pool), PostgresClientDocuments(pool)
    registrations = OpenRegistrations(
        new_unit_of_work,
        PostgresRegistrationKeys(pool, foundation.keyring, foundation.server_secrets),
        foundation.keyring,
        system,
        is_open=settings.open_registration,
    )
    documents = ClientDocuments(
        new_unit_of_work,
        documents_lookup,
        GuardedDocuments(foundation.outbound),
        SharedWork(),
        RememberedDocuments(),
        foundation.shared_buckets,
        registrations,
        system,
    )
    asked = AskedAuthorizations(encounters, resources, documents, foundation.token_verifier)
    answers = AuthorizationAnswers(
        new_unit_of_work,
        UnplacedClients(foundation.shared_buckets, system),
        codes,
        identity.sessions,
        issuer=settings.public_url,
        system=system,
    )
    return Applications(
        lookup=lookup,
        clients=clients,
        secret_presence=secret_presence,
        documents=documents,
        registrations=registrations,
        documents_lookup=documents_lookup,
        resources=resources,
        encounters=encounters,
        codes=codes,
        asked=asked,
        authorizations=Authorizations(asked, documents, answers, system),
        afar_requests=AfarRequests(
            new_unit_of_work,
            foundation.stores.afar_requests,
            encounters,
            resources,
            codes,
            foundation.shared_buckets,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
            page=settings.public_url + AFAR_PAGE,
        ),
    )
