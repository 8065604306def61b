"""Federation: signing in for other applications, as their OAuth, OpenID Connect and SAML provider, and directories."""

from collections.abc import Sequence

from actors.provisioner import ProvisionerPace
from actors.recorders import PresenceWriter, RefusalRecorder, ScimExchangeWriter
from adapters.crypto.signed_by_others import JwtClientAssertions
from adapters.crypto.tokens import RememberedAssertions
from adapters.limits import FairTurns
from adapters.outbound.client_documents import GuardedDocuments, RememberedDocuments, SharedWork
from adapters.outbound.scim import ScimClient
from adapters.postgres.federation.authorizations import (
    PostgresAuthorizationRefusals,
    PostgresAwaitedSignIns,
    PostgresEncounters,
    PostgresPushedRequests,
)
from adapters.postgres.federation.clients import (
    PostgresClientDocuments,
    PostgresClientOrigins,
    PostgresClients,
    PostgresKeptKeys,
    PostgresRegistrationKeys,
    PostgresUsedAssertions,
)
from adapters.postgres.federation.consents import PostgresResources
from adapters.postgres.federation.facts import PostgresFacts, PostgresTokenPreviews
from adapters.postgres.federation.given_sessions import LOGOUTS, PostgresGivenSessions, PostgresLogoutNotices
from adapters.postgres.federation.proxy_checks import PostgresProxies
from adapters.postgres.federation.saml import PostgresSaml
from adapters.postgres.federation.scim.tokens import SCIM_TOKENS, PostgresScimExchanges, PostgresScimTokens
from adapters.postgres.federation.signal_grants import PostgresSignalOffers
from adapters.postgres.federation.signal_log import PostgresSignalLog
from adapters.postgres.federation.signal_polls import PostgresSignalPolls
from adapters.postgres.federation.signals import SESSION_SIGNALS, SIGNALS, PostgresSignalCallers
from adapters.postgres.identity.upstream.providers import PostgresIssuingConnections
from adapters.postgres.identity.upstream.sign_in import PostgresUpstreamSignIn
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from adapters.postgres.services.api_keys import CLIENT_SECRETS
from adapters.postgres.tenancy.management_keys import TRUSTED_ISSUERS, PostgresKeyUse
from adapters.saml.documents import XmlDocuments
from adapters.saml.signing import RsaCertificates
from core.domain.federation.backchannel_requests import PAGE as BACKCHANNEL_PAGE
from core.domain.federation.logouts import DueNotice
from core.domain.federation.oauth.device_flow import ACTIVATION_PAGE
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, CIBA, REFRESH_TOKEN
from core.domain.federation.oauth.oidc import assertion_endpoints
from core.domain.federation.scim.resources import users_address
from core.domain.federation.signals import DueSignal
from core.domain.identifiers import ClientSecretId, ScimTokenId, TrustedIssuerId, UserKeyId
from core.frozen import Frozen
from core.usecases.federation.authorization_codes import AuthorizationAnswers, AuthorizationCodes
from core.usecases.federation.authorization_requests import AskedAuthorizations, AuthorizationRefusals, AwaitedSignIns
from core.usecases.federation.authorizations import Authorizations, PushedRequests
from core.usecases.federation.backchannel_requests import BackchannelRequests
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.clients import ClientOrigins, Clients, OpenRegistrations
from core.usecases.federation.consents import AgentGrants, Consents, UnplacedClients
from core.usecases.federation.device_flow import DeviceFlow
from core.usecases.federation.directory_runs.applying import RunChanges, RunTeams
from core.usecases.federation.directory_runs.keeping import DirectoryKeeping
from core.usecases.federation.directory_runs.runs import DirectoryRuns
from core.usecases.federation.given_sessions import GivenSessions, Userinfo
from core.usecases.federation.grants import Exchanges, Grant, Grants, RefreshGrant, Workloads
from core.usecases.federation.identity_assertions import IdentityAssertions
from core.usecases.federation.logouts import LogoutNotices, LogoutReceivers, Logouts
from core.usecases.federation.provisioning.connections import ProvisioningConnections
from core.usecases.federation.provisioning.keeping import ProvisioningKeeping
from core.usecases.federation.provisioning.runs import ProvisioningRuns
from core.usecases.federation.proxy_checks import ProxyChecks
from core.usecases.federation.saml.answers import SamlAnswers, SamlMessages, SamlVisits
from core.usecases.federation.saml.configurations import Saml
from core.usecases.federation.saml.logouts import SamlLogouts
from core.usecases.federation.saml.sign_in import SamlSignIn
from core.usecases.federation.scim.enrolment import Changes as ScimChanges
from core.usecases.federation.scim.groups import ScimGroups, ScimSettings, ScimTeams
from core.usecases.federation.scim.tokens import ScimExchanges, ScimTokens
from core.usecases.federation.scim.users import ScimUsers
from core.usecases.federation.signal_log import SignalLog
from core.usecases.federation.signal_polls import PolledStreams
from core.usecases.federation.signals import ServiceSignals, SignalReceivers, SignalStreams
from core.usecases.federation.token_preview import TokenPreviews
from core.usecases.record import Deliveries
from core.usecases.tenancy.connections.trials import DirectorySurveys
from core.usecases.tenancy.management_keys import KeyTokens
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileValues
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.settings import Settings
from ports.federation.oauth import ClaimedService
from ports.federation.signals import ClaimedStream, SignalPolls


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
    afar_requests: BackchannelRequests


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
    asked = AskedAuthorizations(encounters, resources, documents, PostgresSignalOffers(pool), foundation.token_verifier)
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
        authorizations=Authorizations(asked, documents, answers, identity.hook_asking, system),
        afar_requests=BackchannelRequests(
            new_unit_of_work,
            foundation.stores.afar_requests,
            encounters,
            resources,
            codes,
            foundation.shared_buckets,
            hooks=identity.hook_asking,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
            page=settings.public_url + BACKCHANNEL_PAGE,
        ),
    )


class Directories(Frozen, kw_only=True):
    tokens: ScimTokens
    token_presence: PresenceWriter[ScimTokenId]
    users: ScimUsers
    groups: ScimGroups
    teams: ScimTeams
    settings: ScimSettings
    exchanges: ScimExchanges
    recorder: ScimExchangeWriter
    runs: DirectoryRuns
    keeping: DirectoryKeeping


def assemble_directories(settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships) -> Directories:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    system, clock, spread = foundation.system, foundation.clock, foundation.secrets.spread
    exchanges = PostgresScimExchanges(pool)
    # A directory may send many changes at once, and each change is short.
    changes = ScimChanges(new_unit_of_work, FairTurns(most_waiting=100, patience=20.0))
    token_presence: PresenceWriter[ScimTokenId] = PresenceWriter(
        PostgresKeyUse(pool, SCIM_TOKENS), foundation.metrics, spread=spread, name="scim_token_presence"
    )
    members_address = users_address(settings.public_url)
    values = ProfileValues(new_unit_of_work, stores.profile_values, clock)
    reading = foundation.ldap_reading
    return Directories(
        tokens=ScimTokens(new_unit_of_work, PostgresScimTokens(pool), stores.setup_links, token_presence, system=system),
        token_presence=token_presence,
        users=ScimUsers(
            changes,
            stores.provisioned_users,
            identity.accounts,
            syntax=foundation.email_syntax,
            buckets=foundation.shared_buckets,
            turns=FairTurns(),
            templates=foundation.mail_templates,
            links=foundation.links,
            values=values,
            ownerships=ownerships,
            system=system,
        ),
        groups=ScimGroups(changes, stores.provisioned_users, members_address=members_address, system=system),
        teams=ScimTeams(changes, stores.directory_teams, members_address=members_address, system=system),
        settings=ScimSettings(new_unit_of_work, stores.directory_teams, clock),
        exchanges=ScimExchanges(exchanges),
        recorder=ScimExchangeWriter(exchanges, foundation.metrics, spread=spread),
        runs=DirectoryRuns(new_unit_of_work, stores.directory_runs, stores.directory_people, stores.upstream_providers, system),
        keeping=DirectoryKeeping(
            new_unit_of_work,
            stores.directory_runs,
            stores.directory_people,
            identity.connection_lookup,
            DirectorySurveys(identity.connection_lookup, foundation.ldap_directories, foundation.keyring),
            reading,
            RunChanges(new_unit_of_work, identity.accounts, values, foundation.mail_templates, system),
            RunTeams(new_unit_of_work, stores.directory_people, stores.directory_teams, reading, system),
            syntax=foundation.email_syntax,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
    )


class SamlRoom(Frozen, kw_only=True):
    configurations: Saml
    sign_in: SamlSignIn
    logouts: SamlLogouts


def assemble_saml(settings: Settings, foundation: Foundation, identity: Identity, facts: PostgresFacts) -> SamlRoom:
    new_unit_of_work, system, clock = foundation.unit_of_work, foundation.system, foundation.clock
    lookup, documents = PostgresSaml(foundation.pool), XmlDocuments(foundation.xml_threads, fair_turn)
    messages = SamlMessages(
        new_unit_of_work,
        keyring=foundation.keyring,
        metrics=foundation.metrics,
        issuer=settings.public_url,
        system=system,
    )
    return SamlRoom(
        configurations=Saml(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            maker=RsaCertificates(),
            keyring=foundation.keyring,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            system=system,
        ),
        sign_in=SamlSignIn(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            SamlVisits(lookup, facts, identity.presence, system),
            SamlAnswers(new_unit_of_work, documents, messages, foundation.server_secrets, system),
            hooks=identity.hook_asking,
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            issuer=settings.public_url,
            system=system,
        ),
        logouts=SamlLogouts(
            new_unit_of_work,
            lookup,
            documents,
            messages,
            flows=identity.flows,
            server_secrets=foundation.server_secrets,
            clock=clock,
            issuer=settings.public_url,
        ),
    )


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
        REFRESH_TOKEN: RefreshGrant(identity.sessions, PostgresSignalCallers(pool)),
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
    afar_requests: BackchannelRequests
    authorizations: Authorizations
    pushed_requests: PushedRequests
    consents: Consents
    agent_grants: AgentGrants
    logouts: Logouts
    logout_notices: LogoutNotices
    signals: ServiceSignals
    signal_log: SignalLog
    signal_streams: SignalStreams
    signal_polls: SignalPolls
    polled_streams: PolledStreams
    signal_deliveries: Sequence[Deliveries[ClaimedStream, DueSignal]]
    """Of events, and of ended sessions."""
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
    provisioning: ProvisioningConnections
    provisioning_runs: ProvisioningRuns
    provisioning_keeping: ProvisioningKeeping
    authorization_refusals: AuthorizationRefusals
    awaited_sign_ins: AwaitedSignIns
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
    signal_polls = PostgresSignalPolls(pool)
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
            hooks=identity.hook_asking,
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
            foundation.outbound_reach,
        ),
        signals=ServiceSignals(new_unit_of_work, stores.signals, system),
        signal_log=SignalLog(new_unit_of_work, PostgresSignalLog(pool), clock),
        signal_streams=SignalStreams(
            new_unit_of_work,
            stores.signals,
            PostgresSignalCallers(pool),
            foundation.token_verifier,
            foundation.outbound,
            foundation.keyring,
            system,
            settings.public_url,
        ),
        signal_polls=signal_polls,
        polled_streams=PolledStreams(
            stores.signals,
            PostgresSignalCallers(pool),
            signal_polls,
            foundation.token_signer,
            foundation.metrics,
            settings.public_url,
        ),
        signal_deliveries=[
            Deliveries(
                SignalReceivers(foundation.keyring, foundation.token_signer, foundation.metrics, settings.public_url),
                PostgresDeliveryQueue(pool, tables),
                foundation.outbound,
                clock,
                spread,
                foundation.outbound_reach,
            )
            for tables in (SIGNALS, SESSION_SIGNALS)
        ],
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
        provisioning=ProvisioningConnections(
            new_unit_of_work,
            stores.provisioning,
            stores.provisioning_runs,
            stores.provisioned_people,
            foundation.keyring,
            foundation.outbound,
            system,
            settings.public_url,
        ),
        provisioning_runs=ProvisioningRuns(new_unit_of_work, stores.provisioning_runs, stores.provisioned_people, system),
        provisioning_keeping=ProvisioningKeeping(
            new_unit_of_work,
            stores.provisioning_runs,
            stores.provisioned_people,
            ScimClient(foundation.outbound, clock),
            ProvisionerPace(fair_turn),
            foundation.keyring,
            foundation.mail_templates,
            foundation.metrics,
            system,
            settings.public_url,
            foundation.outbound_reach,
        ),
        authorization_refusals=AuthorizationRefusals(refusals),
        awaited_sign_ins=AwaitedSignIns(PostgresAwaitedSignIns(pool), clock, system.ids),
        refusal_recorder=RefusalRecorder(refusals, foundation.metrics, spread=spread),
        token_previews=TokenPreviews(PostgresTokenPreviews(pool), clock, settings.public_url, settings.access_token_lifetime, FairTurns()),
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
