"""Federation: signing in for other applications, as their OAuth, OpenID Connect and SAML provider, and directories."""

from collections.abc import Mapping, Sequence
from typing import Final

from actors.provisioner import ProvisionerPace
from actors.recorders import PresenceWriter, RefusalRecorder, ScimExchangeWriter
from adapters.crypto.signed_by_others import JwtClientAssertions
from adapters.crypto.tokens import RememberedAssertions
from adapters.limits import FairTurns
from adapters.outbound.client_documents import ClientMetadataFetcher, RememberedDocuments, SharedWork
from adapters.outbound.scim import ScimClient
from adapters.postgres.federation.authorizations import (
    PostgresAuthorizationContexts,
    PostgresAuthorizationRefusals,
    PostgresAwaitedSignIns,
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
from entrypoints.assembly.by_name import PartsByName, assembled, members_of
from entrypoints.assembly.foundation import Foundation, shared_parts
from entrypoints.assembly.identity import Identity
from entrypoints.event_loop_rounds import fair_turn
from entrypoints.settings import Settings
from ports.federation.oauth import ClaimedService
from ports.federation.signals import ClaimedStream, SignalPolls


class Applications(Frozen, kw_only=True):
    client_lookup: PostgresClients
    clients: Clients
    client_secret_presence: PresenceWriter[ClientSecretId]
    client_documents: ClientDocuments
    open_registrations: OpenRegistrations
    documents_lookup: PostgresClientDocuments
    resources: PostgresResources
    authorization_contexts: PostgresAuthorizationContexts
    authorization_codes: AuthorizationCodes
    asked: AskedAuthorizations
    answers: AuthorizationAnswers
    authorizations: Authorizations
    afar_requests: BackchannelRequests


# Use cases that others take by a shorter name.
_ALSO_CALLED_OF_APPLICATIONS: Final = {
    "codes": "authorization_codes",
    "documents": "client_documents",
    "registrations": "open_registrations",
    "secret_presence": "client_secret_presence",
}
_ALSO_CALLED: Final = {"assertions": "identity_assertions", "codes": "authorization_codes", "polls": "signal_polls"}


def assemble_applications(settings: Settings, foundation: Foundation, identity: Identity) -> Applications:
    """By the names of their parts, as in `assemble_federation`."""
    pool, stores = foundation.pool, foundation.stores
    client_secret_presence: PresenceWriter[ClientSecretId] = PresenceWriter(
        PostgresKeyUse(pool, CLIENT_SECRETS), foundation.metrics, spread=foundation.secrets.spread, name="client_secret_presence"
    )
    lookup, documents_lookup = PostgresClients(pool), PostgresClientDocuments(pool)
    made: Mapping[str, object] = {
        "client_lookup": lookup,
        "client_secret_presence": client_secret_presence,
        "documents_lookup": documents_lookup,
        "resources": PostgresResources(pool),
        "authorization_contexts": PostgresAuthorizationContexts(pool),
    }
    own: Mapping[str, PartsByName] = {
        "clients": {
            "lookup": lookup,
            "assertions": JwtClientAssertions(),
            "used": PostgresUsedAssertions(pool, foundation.ids),
            "key_sets": foundation.key_sets,
            "kept_keys": PostgresKeptKeys(pool),
            "endpoints": assertion_endpoints(settings.public_url),
        },
        "client_documents": {
            "lookup": documents_lookup,
            "source": ClientMetadataFetcher(foundation.outbound),
            "fetches": SharedWork(),
            "new": RememberedDocuments(),
        },
        "open_registrations": {
            "keys": PostgresRegistrationKeys(pool, foundation.keyring, foundation.server_secrets),
            "is_open": settings.open_registration,
        },
        "authorization_codes": {"redemption": stores.authorization_codes},
        "asked": {"signals": PostgresSignalOffers(pool)},
        "answers": {"unplaced": UnplacedClients(foundation.shared_buckets, foundation.system)},
        "afar_requests": {"requests": stores.afar_requests, "page": settings.public_url + BACKCHANNEL_PAGE},
    }
    shared = {**shared_parts(settings, foundation), "sessions": identity.sessions, "hooks": identity.hook_asking}
    return assembled(Applications, stores, shared, own, made=made, also_called=_ALSO_CALLED_OF_APPLICATIONS)


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
    """`own` is the table of what one use case takes; what it does not say is in `shared`, a store, or another member."""
    pool, stores, spread = foundation.pool, foundation.stores, foundation.secrets.spread
    applications = assemble_applications(settings, foundation, identity)
    refusals, exchanges = PostgresAuthorizationRefusals(pool), PostgresScimExchanges(pool)
    token_presence: PresenceWriter[ScimTokenId] = PresenceWriter(
        PostgresKeyUse(pool, SCIM_TOKENS), foundation.metrics, spread=spread, name="scim_token_presence"
    )
    issuer_presence: PresenceWriter[TrustedIssuerId] = PresenceWriter(
        PostgresKeyUse(pool, TRUSTED_ISSUERS), foundation.metrics, spread=spread, name="trusted_issuer_presence"
    )
    made: Mapping[str, object] = {
        **members_of(Federation, applications),
        **_deliveries(settings, foundation),
        "client_origins": ClientOrigins(PostgresClientOrigins(pool), foundation.clock),
        "given_sessions": GivenSessions(
            applications.clients,
            applications.client_lookup,
            PostgresGivenSessions(pool),
            foundation.token_verifier,
            identity.sessions,
            documents=applications.documents_lookup,
            issuer=settings.public_url,
        ),
        "signal_polls": PostgresSignalPolls(pool),
        "scim_token_presence": token_presence,
        "trusted_issuer_presence": issuer_presence,
        "scim_recorder": ScimExchangeWriter(exchanges, foundation.metrics, spread=spread),
        "refusal_recorder": RefusalRecorder(refusals, foundation.metrics, spread=spread),
    }
    own: Mapping[str, PartsByName] = {
        **_own_of_applications(settings, foundation, identity, applications, user_key_presence),
        **_own_of_tokens(settings, foundation, identity, applications),
        **_own_of_saml(settings, foundation, identity),
        **_own_of_signals(foundation),
        **_own_of_directories(settings, foundation, identity, ownerships),
        **_own_of_provisioning(foundation),
        "workloads": {
            "rules": stores.trusted_issuers,
            "clients": applications.client_lookup,
            "key_tokens": key_tokens,
            "presence": issuer_presence,
        },
        "scim_tokens": {"lookup": PostgresScimTokens(pool), "drafts": stores.setup_links, "presence": token_presence},
        "scim_exchanges": {"store": exchanges},
        "authorization_refusals": {"store": refusals},
    }
    return assembled(Federation, stores, _shared(settings, foundation, identity, applications), own, made=made, also_called=_ALSO_CALLED)


def _shared(settings: Settings, foundation: Foundation, identity: Identity, applications: Applications) -> PartsByName:
    """What several use cases take by the same name."""
    return {
        **shared_parts(settings, foundation),
        "accounts": identity.accounts,
        "admission": identity.admission,
        "asked": applications.asked,
        "client_lookup": applications.client_lookup,
        "devices": identity.devices,
        "authorization_contexts": applications.authorization_contexts,
        "flows": identity.flows,
        "hooks": identity.hook_asking,
        "sign_in_domains": identity.sign_in_domains,
        "recorder": identity.connection_recorder,
        "resources": applications.resources,
        "sessions": identity.sessions,
    }


def _deliveries(settings: Settings, foundation: Foundation) -> Mapping[str, object]:
    pool, reach = foundation.pool, foundation.outbound_reach
    outbound, clock, spread = foundation.outbound, foundation.clock, foundation.secrets.spread
    logouts = LogoutReceivers(foundation.token_signer, foundation.metrics, foundation.system, settings.public_url)
    return {
        "deliveries": Deliveries(logouts, PostgresDeliveryQueue(pool, LOGOUTS), outbound, clock, spread, reach),
        "signal_deliveries": [
            Deliveries(
                SignalReceivers(foundation.keyring, foundation.token_signer, foundation.metrics, settings.public_url),
                PostgresDeliveryQueue(pool, tables),
                outbound,
                clock,
                spread,
                reach,
            )
            for tables in (SIGNALS, SESSION_SIGNALS)
        ],
    }


def _own_of_applications(
    settings: Settings, foundation: Foundation, identity: Identity, applications: Applications, user_key_presence: PresenceWriter[UserKeyId]
) -> Mapping[str, PartsByName]:
    pool, stores = foundation.pool, foundation.stores
    return {
        "device_flow": {"codes": stores.device_codes, "activation_page": settings.public_url + ACTIVATION_PAGE},
        "pushed_requests": {"store": PostgresPushedRequests(pool)},
        "agent_grants": {"lookup": stores.consents},
        "logout_notices": {"lookup": PostgresLogoutNotices(pool)},
        "awaited_sign_ins": {"store": PostgresAwaitedSignIns(pool)},
        "token_previews": {"lookup": PostgresTokenPreviews(pool), "turns": FairTurns()},
        "proxy_checks": {
            "lookup": PostgresProxies(pool),
            "clients": applications.client_lookup,
            "assertions": RememberedAssertions(foundation.token_signer),
            "presence": identity.presence,
            "key_presence": user_key_presence,
            "secret_presence": applications.client_secret_presence,
        },
    }


def _own_of_tokens(settings: Settings, foundation: Foundation, identity: Identity, applications: Applications) -> Mapping[str, PartsByName]:
    pool = foundation.pool
    # To add a grant type, add a line here.
    by_type: dict[str, Grant] = {
        AUTHORIZATION_CODE: applications.authorization_codes.redeem,
        REFRESH_TOKEN: RefreshGrant(identity.sessions, PostgresSignalCallers(pool)),
        CIBA: applications.afar_requests.redeem,
    }
    exchanges = Exchanges(
        foundation.unit_of_work,
        foundation.stores.exchanges,
        foundation.token_verifier,
        foundation.token_signer,
        foundation.metrics,
        system=foundation.system,
        issuer=settings.public_url,
        access_lifetime=settings.access_token_lifetime,
    )
    return {
        "grants": {"grants": by_type, "exchanges": exchanges},
        "identity_assertions": {
            "connections": PostgresIssuingConnections(pool),
            "lookup": PostgresUpstreamSignIn(pool),
            "clients": applications.client_lookup,
        },
    }


def _own_of_saml(settings: Settings, foundation: Foundation, identity: Identity) -> Mapping[str, PartsByName]:
    new_unit_of_work, system = foundation.unit_of_work, foundation.system
    # One for both: questions of both that come at once share a round trip.
    facts = PostgresFacts(foundation.pool)
    lookup, documents = PostgresSaml(foundation.pool), XmlDocuments(foundation.xml_threads, fair_turn)
    messages = SamlMessages(
        new_unit_of_work, keyring=foundation.keyring, metrics=foundation.metrics, issuer=settings.public_url, system=system
    )
    parts = {"lookup": lookup, "documents": documents, "messages": messages}
    return {
        "userinfo": {"facts": facts},
        "saml": {**parts, "maker": RsaCertificates()},
        "saml_sign_in": {
            **parts,
            "visits": SamlVisits(lookup, facts, identity.presence, system),
            "answers": SamlAnswers(new_unit_of_work, documents, messages, foundation.server_secrets, system),
        },
        "saml_logouts": parts,
    }


def _own_of_signals(foundation: Foundation) -> Mapping[str, PartsByName]:
    pool, store = foundation.pool, foundation.stores.signals
    return {
        "signals": {"store": store},
        "signal_log": {"lookup": PostgresSignalLog(pool)},
        "signal_streams": {"store": store, "callers": PostgresSignalCallers(pool)},
        "polled_streams": {"store": store, "callers": PostgresSignalCallers(pool)},
    }


def _own_of_directories(
    settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships
) -> Mapping[str, PartsByName]:
    new_unit_of_work, stores, system = foundation.unit_of_work, foundation.stores, foundation.system
    reading, connections = foundation.ldap_reading, identity.connection_lookup
    values = ProfileValues(new_unit_of_work, stores.profile_values, foundation.clock)
    # A directory may send many changes at once, and each change is short.
    changing = {"changes": ScimChanges(new_unit_of_work, FairTurns(most_waiting=100, patience=20.0))}
    grouping = {**changing, "members_address": users_address(settings.public_url)}
    return {
        "scim_users": {
            **changing,
            "lookup": stores.provisioned_users,
            "turns": FairTurns(),
            "values": values,
            "ownerships": ownerships,
        },
        "scim_groups": {**grouping, "lookup": stores.provisioned_users},
        "scim_teams": {**grouping, "lookup": stores.directory_teams},
        "scim_settings": {"lookup": stores.directory_teams},
        "directory_runs": {"people": stores.directory_people, "providers": stores.upstream_providers},
        "directory_keeping": {
            "runs": stores.directory_runs,
            "people": stores.directory_people,
            "lookup": connections,
            "surveys": DirectorySurveys(connections, foundation.ldap_directories, foundation.keyring),
            "reading": reading,
            "changes": RunChanges(new_unit_of_work, identity.accounts, values, foundation.mail_templates, system),
            "teams": RunTeams(new_unit_of_work, stores.directory_people, stores.directory_teams, reading, system),
        },
    }


def _own_of_provisioning(foundation: Foundation) -> Mapping[str, PartsByName]:
    stores = foundation.stores
    working = {"runs": stores.provisioning_runs, "people": stores.provisioned_people}
    return {
        "provisioning": {**working, "store": stores.provisioning},
        "provisioning_runs": {"people_there": stores.provisioned_people},
        "provisioning_keeping": {**working, "far": ScimClient(foundation.outbound, foundation.clock), "pace": ProvisionerPace(fair_turn)},
    }
