"""Federation: signing in for other applications, as their OAuth 2.0 and OpenID Connect provider."""

from actors.recorders import PresenceWriter, RefusalRecorder, ScimExchangeWriter
from adapters.crypto.tokens import RememberedAssertions
from adapters.postgres.federation.authorizations import PostgresAuthorizationRefusals, PostgresPushedRequests
from adapters.postgres.federation.clients import PostgresClientOrigins
from adapters.postgres.federation.facts import PostgresFacts, PostgresTokenPreviews
from adapters.postgres.federation.given_sessions import LOGOUTS, PostgresGivenSessions, PostgresLogoutNotices
from adapters.postgres.federation.proxy_checks import PostgresProxies
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from core.domain.federation.logouts import DueNotice
from core.domain.federation.oauth.device_flow import ACTIVATION_PAGE
from core.domain.identifiers import ClientSecretId, ScimTokenId, TrustedIssuerId, UserKeyId
from core.frozen import Frozen
from core.usecases.federation.afar_requests import AfarRequests
from core.usecases.federation.authorization_codes import AuthorizationCodes
from core.usecases.federation.authorization_requests import AuthorizationRefusals
from core.usecases.federation.authorizations import Authorizations, PushedRequests
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.clients import ClientOrigins, Clients, OpenRegistrations
from core.usecases.federation.consents import AgentGrants, Consents
from core.usecases.federation.device_flow import DeviceFlow
from core.usecases.federation.directory_runs.keeping import DirectoryKeeping
from core.usecases.federation.directory_runs.runs import DirectoryRuns
from core.usecases.federation.given_sessions import GivenSessions, Userinfo
from core.usecases.federation.grants import Grants, Workloads
from core.usecases.federation.identity_assertions import IdentityAssertions
from core.usecases.federation.logouts import LogoutNotices, LogoutReceivers, Logouts
from core.usecases.federation.proxy_checks import ProxyChecks
from core.usecases.federation.saml.configurations import Saml
from core.usecases.federation.saml.logouts import SamlLogouts
from core.usecases.federation.saml.sign_in import SamlSignIn
from core.usecases.federation.scim.groups import ScimGroups, ScimSettings, ScimTeams
from core.usecases.federation.scim.tokens import ScimExchanges, ScimTokens
from core.usecases.federation.scim.users import ScimUsers
from core.usecases.federation.token_preview import TokenPreviews
from core.usecases.record import Deliveries
from core.usecases.tenancy.management_keys import KeyTokens
from core.usecases.tenancy.ownerships import Ownerships
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.assembly.rooms.applications import assemble_applications
from entrypoints.assembly.rooms.directories import assemble_directories
from entrypoints.assembly.rooms.saml import assemble_saml
from entrypoints.assembly.rooms.tokens import assemble_tokens
from entrypoints.settings import Settings
from ports.federation.oauth import ClaimedService


class Federation(Frozen, kw_only=True):
    clients: Clients
    client_origins: ClientOrigins
    client_documents: ClientDocuments
    open_registrations: OpenRegistrations
    authorization_codes: AuthorizationCodes
    grants: Grants
    identity_assertions: IdentityAssertions
    given_sessions: GivenSessions
    device_flow: DeviceFlow
    afar_requests: AfarRequests
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
    directory_runs: DirectoryRuns
    directory_keeping: DirectoryKeeping
    authorization_refusals: AuthorizationRefusals
    refusal_recorder: RefusalRecorder
    token_previews: TokenPreviews
    userinfo: Userinfo
    proxy_checks: ProxyChecks
    saml: Saml
    saml_sign_in: SamlSignIn
    saml_logouts: SamlLogouts


def assemble_federation(
    settings: Settings,
    foundation: Foundation,
    identity: Identity,
    ownerships: Ownerships,
    *,
    key_tokens: KeyTokens,
    user_key_presence: PresenceWriter[UserKeyId],
) -> Federation:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock, spread = foundation.system, foundation.clock, foundation.secrets.spread
    applications = assemble_applications(settings, foundation, identity)
    tokens = assemble_tokens(settings, foundation, identity, applications, key_tokens)
    directories = assemble_directories(settings, foundation, identity, ownerships)
    # One for both: questions of both that come at once share a round trip.
    facts = PostgresFacts(pool)
    saml = assemble_saml(settings, foundation, identity, facts)
    refusals = PostgresAuthorizationRefusals(pool)
    return Federation(
        clients=applications.clients,
        client_documents=applications.documents,
        open_registrations=applications.registrations,
        client_origins=ClientOrigins(PostgresClientOrigins(pool), clock),
        authorization_codes=applications.codes,
        grants=tokens.grants,
        workloads=tokens.workloads,
        identity_assertions=tokens.assertions,
        trusted_issuer_presence=tokens.trusted_issuer_presence,
        given_sessions=GivenSessions(
            applications.clients,
            applications.lookup,
            PostgresGivenSessions(pool),
            foundation.token_verifier,
            identity.sessions,
            documents=applications.documents_lookup,
            issuer=settings.public_url,
        ),
        device_flow=DeviceFlow(
            new_unit_of_work,
            stores.device_codes,
            clients=applications.clients,
            client_lookup=applications.lookup,
            resources=applications.resources,
            devices=identity.devices,
            admission=identity.admission,
            sessions=identity.sessions,
            buckets=foundation.shared_buckets,
            server_secrets=foundation.server_secrets,
            metrics=foundation.metrics,
            system=system,
            activation_page=settings.public_url + ACTIVATION_PAGE,
        ),
        afar_requests=applications.afar_requests,
        authorizations=applications.authorizations,
        pushed_requests=PushedRequests(applications.asked, PostgresPushedRequests(pool), system),
        consents=Consents(new_unit_of_work, stores.consents),
        agent_grants=AgentGrants(new_unit_of_work, stores.consents, foundation.clock),
        logouts=Logouts(applications.encounters, foundation.token_verifier),
        logout_notices=LogoutNotices(PostgresLogoutNotices(pool)),
        deliveries=Deliveries(
            LogoutReceivers(foundation.token_signer, foundation.metrics, system, settings.public_url),
            PostgresDeliveryQueue(pool, LOGOUTS),
            foundation.outbound,
            clock,
            spread,
        ),
        scim_tokens=directories.tokens,
        scim_token_presence=directories.token_presence,
        client_secret_presence=applications.secret_presence,
        scim_users=directories.users,
        scim_groups=directories.groups,
        scim_teams=directories.teams,
        scim_settings=directories.settings,
        scim_exchanges=directories.exchanges,
        scim_recorder=directories.recorder,
        directory_runs=directories.runs,
        directory_keeping=directories.keeping,
        authorization_refusals=AuthorizationRefusals(refusals),
        refusal_recorder=RefusalRecorder(refusals, foundation.metrics, spread=spread),
        token_previews=TokenPreviews(PostgresTokenPreviews(pool), clock, settings.public_url, settings.access_token_lifetime),
        userinfo=Userinfo(facts, settings.public_url),
        proxy_checks=ProxyChecks(
            PostgresProxies(pool),
            applications.lookup,
            applications.codes,
            identity.sessions,
            foundation.token_verifier,
            RememberedAssertions(foundation.token_signer),
            identity.presence,
            user_key_presence,
            applications.secret_presence,
            system,
            settings.public_url,
        ),
        saml=saml.configurations,
        saml_sign_in=saml.sign_in,
        saml_logouts=saml.logouts,
    )
