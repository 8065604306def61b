"""Federation: signing in for other applications, as their OAuth 2.0 and OpenID Connect provider."""

from actors.presence import PresenceWriter
from actors.recorders.refusal_recorder import RefusalRecorder
from actors.recorders.scim_exchange_writer import ScimExchangeWriter
from adapters.crypto.client_assertions import JwtClientAssertions
from adapters.new_documents import RememberedDocuments
from adapters.outbound.client_documents import GuardedDocuments
from adapters.postgres.federation.authorization_refusals import PostgresAuthorizationRefusals
from adapters.postgres.federation.authorizations import PostgresEncounters, PostgresPushedRequests
from adapters.postgres.federation.client_documents import PostgresClientDocuments
from adapters.postgres.federation.client_origins import PostgresClientOrigins
from adapters.postgres.federation.clients import PostgresClients, PostgresKeptKeys, PostgresUsedAssertions
from adapters.postgres.federation.facts import PostgresFacts
from adapters.postgres.federation.given_sessions import PostgresGivenSessions
from adapters.postgres.federation.logout_notices import LOGOUTS, PostgresLogoutNotices
from adapters.postgres.federation.resources import PostgresResources
from adapters.postgres.federation.saml.lookup import PostgresSaml
from adapters.postgres.federation.scim.exchanges import PostgresScimExchanges
from adapters.postgres.federation.scim.tokens import SCIM_TOKENS, PostgresScimTokens
from adapters.postgres.federation.token_preview import PostgresTokenPreviews
from adapters.postgres.identity.upstream.identity_assertions import PostgresIssuingConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from adapters.postgres.services.client_secrets import CLIENT_SECRETS
from adapters.postgres.tenancy.keys.machine_keys import PostgresKeyUse
from adapters.postgres.tenancy.keys.trusted_issuers import TRUSTED_ISSUERS
from adapters.saml.certificates import RsaCertificates
from adapters.saml.documents import XmlDocuments
from adapters.shared_fetches import SharedWork
from adapters.turns import FairTurns
from core.domain.federation.logout.logout_notices import DueNotice
from core.domain.federation.oauth.device_flow import ACTIVATION_PAGE
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, REFRESH_TOKEN
from core.domain.federation.oauth.metadata import assertion_endpoints
from core.domain.federation.scim.resources import users_address
from core.domain.identifiers import ClientSecretId, ScimTokenId, TrustedIssuerId
from core.frozen import Frozen
from core.usecases.federation.agent_grants import AgentGrants
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.federation.authorization_refusals import AuthorizationRefusals
from core.usecases.federation.authorizations import Authorizations
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.client_origins import ClientOrigins
from core.usecases.federation.clients import Clients
from core.usecases.federation.consents import Consents
from core.usecases.federation.device_flow import DeviceFlow
from core.usecases.federation.exchanges import Exchanges
from core.usecases.federation.given_sessions import GivenSessions
from core.usecases.federation.grants import Grant, Grants, RefreshGrant
from core.usecases.federation.identity_assertions import IdentityAssertions
from core.usecases.federation.logout_notices import LogoutNotices, LogoutReceivers
from core.usecases.federation.logouts import Logouts
from core.usecases.federation.pushed_requests import PushedRequests
from core.usecases.federation.saml.configurations import Saml
from core.usecases.federation.saml.logouts import SamlLogouts
from core.usecases.federation.saml.messages import SamlMessages
from core.usecases.federation.saml.sign_in import SamlSignIn
from core.usecases.federation.scim.changes import Changes as ScimChanges
from core.usecases.federation.scim.exchanges import ScimExchanges
from core.usecases.federation.scim.groups import ScimGroups
from core.usecases.federation.scim.teams import ScimSettings, ScimTeams
from core.usecases.federation.scim.tokens import ScimTokens
from core.usecases.federation.scim.users import ScimUsers
from core.usecases.federation.token_preview import TokenPreviews
from core.usecases.federation.unplaced_clients import UnplacedClients
from core.usecases.federation.userinfo import Userinfo
from core.usecases.federation.workloads import Workloads
from core.usecases.record.deliveries import Deliveries
from core.usecases.tenancy.keys.key_tokens import KeyTokens
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_values import ProfileValues
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.settings import Settings
from ports.federation.logout_notices import ClaimedService


class Federation(Frozen, kw_only=True):
    clients: Clients
    client_origins: ClientOrigins
    client_documents: ClientDocuments
    authorization_codes: AuthorizationCodes
    grants: Grants
    identity_assertions: IdentityAssertions
    given_sessions: GivenSessions
    device_flow: DeviceFlow
    authorizations: Authorizations
    pushed_requests: PushedRequests
    consents: Consents
    agent_grants: AgentGrants
    logouts: Logouts
    logout_notices: LogoutNotices
    deliveries: Deliveries[ClaimedService, DueNotice]
    scim_tokens: ScimTokens
    scim_token_presence: PresenceWriter[ScimTokenId]
    client_secret_presence: PresenceWriter[ClientSecretId]
    workloads: Workloads
    trusted_issuer_presence: PresenceWriter[TrustedIssuerId]
    scim_users: ScimUsers
    scim_groups: ScimGroups
    scim_teams: ScimTeams
    scim_settings: ScimSettings
    scim_exchanges: ScimExchanges
    scim_recorder: ScimExchangeWriter
    authorization_refusals: AuthorizationRefusals
    refusal_recorder: RefusalRecorder
    token_previews: TokenPreviews
    userinfo: Userinfo
    saml: Saml
    saml_sign_in: SamlSignIn
    saml_logouts: SamlLogouts


def assemble_federation(
    settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships, key_tokens: KeyTokens
) -> Federation:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock, spread = foundation.system, foundation.clock, foundation.secrets.spread
    client_lookup = PostgresClients(pool)
    client_secret_presence: PresenceWriter[ClientSecretId] = PresenceWriter(
        PostgresKeyUse(pool, CLIENT_SECRETS), foundation.metrics, spread=spread, name="client_secret_presence"
    )
    clients = Clients(
        client_lookup,
        JwtClientAssertions(),
        PostgresUsedAssertions(pool, foundation.ids),
        foundation.key_sets,
        PostgresKeptKeys(pool),
        client_secret_presence,
        clock=clock,
        issuer=settings.public_url,
        endpoints=assertion_endpoints(settings.public_url),
    )
    authorization_codes = AuthorizationCodes(new_unit_of_work, stores.authorization_codes, clients, identity.sessions, system=system)
    encounters, facts, resources = PostgresEncounters(pool), PostgresFacts(pool), PostgresResources(pool)
    documents_lookup = PostgresClientDocuments(pool)
    client_documents = ClientDocuments(
        new_unit_of_work,
        documents_lookup,
        GuardedDocuments(foundation.outbound),
        SharedWork(),
        RememberedDocuments(),
        foundation.shared_buckets,
        system,
    )
    authorizations = Authorizations(
        new_unit_of_work,
        encounters,
        resources,
        client_documents,
        UnplacedClients(foundation.shared_buckets, system),
        foundation.token_verifier,
        authorization_codes,
        identity.sessions,
        issuer=settings.public_url,
        system=system,
    )
    refusals = PostgresAuthorizationRefusals(pool)
    provisioned_users, scim_exchanges = stores.provisioned_users, PostgresScimExchanges(pool)
    directory_teams = stores.directory_teams
    # A directory may send many changes at once, and each change is short.
    scim_changes = ScimChanges(new_unit_of_work, FairTurns(most_waiting=100, patience=20.0))
    scim_token_presence: PresenceWriter[ScimTokenId] = PresenceWriter(
        PostgresKeyUse(pool, SCIM_TOKENS), foundation.metrics, spread=spread, name="scim_token_presence"
    )
    # To add a grant type, add a line here.
    grants: dict[str, Grant] = {
        AUTHORIZATION_CODE: authorization_codes.redeem,
        REFRESH_TOKEN: RefreshGrant(identity.sessions),
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
        clients=client_lookup,
        resources=resources,
        devices=identity.devices,
        realms=identity.realms,
        sessions=identity.sessions,
        signer=foundation.token_signer,
        recorder=identity.connection_recorder,
        metrics=foundation.metrics,
        system=system,
        issuer=settings.public_url,
    )
    token_grants = Grants(
        grants,
        identity.sessions,
        resources,
        exchanges,
        assertions,
        foundation.token_signer,
        foundation.metrics,
        system=system,
        issuer=settings.public_url,
        access_lifetime=settings.access_token_lifetime,
    )
    trusted_issuer_presence: PresenceWriter[TrustedIssuerId] = PresenceWriter(
        PostgresKeyUse(pool, TRUSTED_ISSUERS), foundation.metrics, spread=spread, name="trusted_issuer_presence"
    )
    saml_lookup, documents = PostgresSaml(pool), XmlDocuments(foundation.xml_threads, fair_turn)
    saml_messages = SamlMessages(
        new_unit_of_work,
        keyring=foundation.keyring,
        metrics=foundation.metrics,
        issuer=settings.public_url,
        system=system,
    )
    return Federation(
        clients=clients,
        client_documents=client_documents,
        client_origins=ClientOrigins(PostgresClientOrigins(pool), clock),
        authorization_codes=authorization_codes,
        grants=token_grants,
        workloads=Workloads(
            stores.trusted_issuers,
            client_lookup,
            foundation.assertions,
            token_grants,
            key_tokens,
            trusted_issuer_presence,
            metrics=foundation.metrics,
            system=system,
        ),
        identity_assertions=assertions,
        trusted_issuer_presence=trusted_issuer_presence,
        given_sessions=GivenSessions(
            clients,
            client_lookup,
            PostgresGivenSessions(pool),
            foundation.token_verifier,
            identity.sessions,
            documents=documents_lookup,
            issuer=settings.public_url,
        ),
        device_flow=DeviceFlow(
            new_unit_of_work,
            stores.device_codes,
            clients=clients,
            client_lookup=client_lookup,
            resources=resources,
            devices=identity.devices,
            admission=identity.admission,
            sessions=identity.sessions,
            buckets=foundation.shared_buckets,
            server_secrets=foundation.server_secrets,
            metrics=foundation.metrics,
            system=system,
            activation_page=settings.public_url + ACTIVATION_PAGE,
        ),
        authorizations=authorizations,
        pushed_requests=PushedRequests(authorizations, PostgresPushedRequests(pool), system),
        consents=Consents(new_unit_of_work, stores.consents),
        agent_grants=AgentGrants(new_unit_of_work, stores.consents, foundation.clock),
        logouts=Logouts(encounters, foundation.token_verifier),
        logout_notices=LogoutNotices(PostgresLogoutNotices(pool)),
        deliveries=Deliveries(
            LogoutReceivers(foundation.token_signer, foundation.metrics, system, settings.public_url),
            PostgresDeliveryQueue(pool, LOGOUTS),
            foundation.outbound,
            clock,
            spread,
        ),
        scim_tokens=ScimTokens(
            new_unit_of_work,
            PostgresScimTokens(pool),
            stores.setup_links,
            scim_token_presence,
            system=system,
        ),
        scim_token_presence=scim_token_presence,
        client_secret_presence=client_secret_presence,
        scim_users=ScimUsers(
            scim_changes,
            provisioned_users,
            identity.accounts,
            syntax=foundation.email_syntax,
            buckets=foundation.shared_buckets,
            turns=FairTurns(),
            templates=foundation.mail_templates,
            links=foundation.links,
            values=ProfileValues(new_unit_of_work, stores.profile_values, clock),
            ownerships=ownerships,
            system=system,
        ),
        scim_groups=ScimGroups(scim_changes, provisioned_users, members_address=users_address(settings.public_url), system=system),
        scim_teams=ScimTeams(scim_changes, directory_teams, members_address=users_address(settings.public_url), system=system),
        scim_settings=ScimSettings(new_unit_of_work, directory_teams, clock),
        scim_exchanges=ScimExchanges(scim_exchanges),
        scim_recorder=ScimExchangeWriter(scim_exchanges, foundation.metrics, spread=spread),
        authorization_refusals=AuthorizationRefusals(refusals),
        refusal_recorder=RefusalRecorder(refusals, foundation.metrics, spread=spread),
        token_previews=TokenPreviews(PostgresTokenPreviews(pool), clock, settings.public_url, settings.access_token_lifetime),
        userinfo=Userinfo(facts, settings.public_url),
        saml=Saml(
            new_unit_of_work,
            saml_lookup,
            documents,
            saml_messages,
            maker=RsaCertificates(),
            keyring=foundation.keyring,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
        ),
        saml_sign_in=SamlSignIn(
            new_unit_of_work,
            saml_lookup,
            documents,
            saml_messages,
            facts=facts,
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            presence=identity.presence,
            issuer=settings.public_url,
            system=system,
        ),
        saml_logouts=SamlLogouts(
            new_unit_of_work,
            saml_lookup,
            documents,
            saml_messages,
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            clock=clock,
        ),
    )
