"""Tenancy: organizations, their members, and what each member may do."""

from collections.abc import Mapping
from typing import Final

import trio

from actors.recorders import PresenceWriter
from adapters.crypto.signing_keys import Es256HeadSigner
from adapters.limits import FairTurns
from adapters.postgres.identity.sessions.sessions import PostgresSessionReach
from adapters.postgres.identity.upstream.connections import PostgresDirectoryFailures
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from adapters.postgres.tenancy.callers import PostgresCallers
from adapters.postgres.tenancy.management_keys import MANAGEMENT_KEYS, PostgresKeyUse, PostgresManagementKeys
from adapters.postgres.tenancy.organizations import PostgresTiers
from adapters.postgres.tenancy.roles import PostgresRelations
from adapters.postgres.tenancy.setup import PostgresTestStarters
from adapters.postgres.tenancy.siem import PostgresSiemQueue
from adapters.postgres.tenancy.webhooks import WEBHOOKS
from adapters.saml.signing import RsaCertificates
from core.domain.identifiers import ManagementKeyId
from core.domain.tenancy.webhooks import DueEvent
from core.frozen import Frozen
from core.usecases.identity.upstream.providers import ConnectionKeys
from core.usecases.record import Deliveries
from core.usecases.tenancy.branding import OrganizationBranding
from core.usecases.tenancy.callers import Callers
from core.usecases.tenancy.connections.answers import DirectoryAnswers, DirectoryLogouts
from core.usecases.tenancy.connections.lifecycle import Connections, DirectoryMetadataReader
from core.usecases.tenancy.connections.passwords import DirectoryPasswords, FailedDirectorySignIns
from core.usecases.tenancy.connections.refreshes import ConnectionRefreshes
from core.usecases.tenancy.connections.trials import ConnectionTests, DirectorySurveys
from core.usecases.tenancy.domains import DomainProofs, DomainRoutes, Domains
from core.usecases.tenancy.hooks import Hooks
from core.usecases.tenancy.invitations import Invitations
from core.usecases.tenancy.join_requests import JoinRequests
from core.usecases.tenancy.mail_servers import MailServers
from core.usecases.tenancy.management_keys import KeyTokens, ManagementKeys
from core.usecases.tenancy.members import MemberFactors, Members
from core.usecases.tenancy.organizations import Organizations
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileFields, ProfileValues
from core.usecases.tenancy.rights import AccessExplainer
from core.usecases.tenancy.risk import OwnerNotices, RiskPoliciesOfKeepers, RiskWaysBack
from core.usecases.tenancy.roles import Roles
from core.usecases.tenancy.setup.connection_drafts import ConnectionDrafts
from core.usecases.tenancy.setup.drafts import DomainDrafts, ScimDrafts, SiemDrafts
from core.usecases.tenancy.setup.setup_drafts import Activations, SetupDrafts
from core.usecases.tenancy.setup.setup_links import SetupLinks
from core.usecases.tenancy.siem import Siem, SiemExport
from core.usecases.tenancy.sign_in_rules import OrganizationSignInRules
from core.usecases.tenancy.teams import Teams
from core.usecases.tenancy.terms import TermsVersions
from core.usecases.tenancy.texts import MailPreviews, Notices, OrganizationLanguages, OwnTextChanges
from core.usecases.tenancy.trusted_issuers import TrustedIssuers
from core.usecases.tenancy.upstream_providers import OrganizationOAuthCredentials, OrganizationUpstreamProviders
from core.usecases.tenancy.webhooks import WebhookDeliveries, WebhookReceivers, Webhooks
from entrypoints.assembly.by_name import PartsByName, assembled
from entrypoints.assembly.configured import installed_providers, with_client
from entrypoints.assembly.foundation import Foundation, shared_parts
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings
from ports.tenancy.receivers import ClaimedWebhook


class Tenancy(Frozen, kw_only=True):
    callers: Callers
    organizations: Organizations
    members: Members
    ownerships: Ownerships
    member_factors: MemberFactors
    invitations: Invitations
    profile_fields: ProfileFields
    profile_values: ProfileValues
    roles: Roles
    teams: Teams
    sign_in_rules: OrganizationSignInRules
    terms: TermsVersions
    risk_policies: RiskPoliciesOfKeepers
    risk_ways_back: RiskWaysBack
    owner_notices: OwnerNotices
    access: AccessExplainer
    mail_servers: MailServers
    management_keys: ManagementKeys
    management_key_presence: PresenceWriter[ManagementKeyId]
    key_tokens: KeyTokens
    trusted_issuers: TrustedIssuers
    branding: OrganizationBranding
    spoken_languages: OrganizationLanguages
    own_texts: OwnTextChanges
    notices: Notices
    mail_previews: MailPreviews
    domains: Domains
    domain_routes: DomainRoutes
    join_requests: JoinRequests
    oauth_credentials: OrganizationOAuthCredentials
    upstream_providers: OrganizationUpstreamProviders
    connections: Connections
    connection_refreshes: ConnectionRefreshes
    connection_tests: ConnectionTests
    directory_answers: DirectoryAnswers
    directory_passwords: DirectoryPasswords
    directory_logouts: DirectoryLogouts
    webhooks: Webhooks
    hooks: Hooks
    webhook_deliveries: WebhookDeliveries
    deliveries: Deliveries[ClaimedWebhook, DueEvent]
    setup_links: SetupLinks
    setup_drafts: SetupDrafts
    domain_drafts: DomainDrafts
    scim_drafts: ScimDrafts
    connection_drafts: ConnectionDrafts
    siem_drafts: SiemDrafts
    siem: Siem
    siem_export: SiemExport


def assemble_ownerships(foundation: Foundation) -> Ownerships:
    return Ownerships(
        foundation.unit_of_work,
        foundation.stores.organizations,
        foundation.mail_templates,
        foundation.links,
        clock=foundation.clock,
    )


# Use cases that others take by a shorter name.
_ALSO_CALLED: Final = {"answers": "directory_answers", "providers": "upstream_providers", "tests": "connection_tests"}


def assemble_tenancy(settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships) -> Tenancy:
    """`own` is the table of what one use case takes; what it does not say is in `_shared`, a store, or another member."""
    pool, stores, shared = foundation.pool, foundation.stores, _shared(settings, foundation, identity)
    presence: PresenceWriter[ManagementKeyId] = PresenceWriter(
        PostgresKeyUse(pool, MANAGEMENT_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="management_key_presence"
    )
    receivers = WebhookReceivers(
        foundation.unit_of_work, foundation.keyring, foundation.mail_templates, foundation.metrics, foundation.clock
    )
    keys = {"lookup": PostgresManagementKeys(pool), "presence": presence}
    setups, connections = {"lookup": stores.setup_links}, {"lookup": identity.connection_lookup}
    made: Mapping[str, object] = {
        "ownerships": ownerships,
        "management_key_presence": presence,
        "mail_servers": MailServers(
            foundation.unit_of_work,
            stores.mail_servers,
            foundation.organization_post,
            foundation.mail,
            keyring=foundation.keyring,
            syntax=foundation.email_syntax,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=foundation.clock,
            ids=foundation.ids,
        ),
        "deliveries": Deliveries(
            receivers, PostgresDeliveryQueue(pool, WEBHOOKS), shared["outbound"], shared["clock"], shared["spread"], shared["reach"]
        ),
    }
    own: Mapping[str, PartsByName] = {
        "callers": {"lookup": PostgresCallers(pool), "presence": identity.presence},
        "organizations": {"tiers": PostgresTiers(pool)},
        "members": {"turns": FairTurns()},
        "sign_in_rules": {"session_reach": PostgresSessionReach(pool)},
        "risk_policies": {"locations": identity.devices.locations, "knows_countries": settings.geoip_database is not None},
        "owner_notices": {"lookup": stores.risk_policies},
        "access": {"lookup": PostgresRelations(pool)},
        "management_keys": keys,
        "key_tokens": keys,
        "branding": {"lookup": stores.looks},
        "domain_routes": {"configured": frozenset(with_client(installed_providers(settings)))},
        "connections": connections,
        "connection_refreshes": {"reader": DirectoryMetadataReader(foundation.outbound, foundation.directory_documents)},
        "connection_tests": {**connections, "starters": PostgresTestStarters(pool)},
        "directory_answers": connections,
        "directory_passwords": {
            **connections,
            "failures": PostgresDirectoryFailures(pool),
            "outages": identity.idp_logins.outages,
            "failed_sign_ins": FailedDirectorySignIns(
                identity.idp_logins.lookup, identity.devices, identity.login_events, foundation.system
            ),
        },
        "directory_logouts": connections,
        "setup_drafts": {**setups, "activations": Activations(shared["proofs"], foundation.keyring, foundation.clock)},
        "connection_drafts": setups,
        "siem_drafts": setups,
        "siem_export": {"queue": PostgresSiemQueue(pool), "breathe": trio.lowlevel.checkpoint},
    }
    return assembled(Tenancy, stores, shared, own, made=made, also_called=_ALSO_CALLED)


def _shared(settings: Settings, foundation: Foundation, identity: Identity) -> PartsByName:
    """What several use cases take by the same name."""
    return {
        **shared_parts(settings, foundation),
        "hook_asking": identity.hook_asking,
        "shipped": foundation.shipped_words,
        "documents": foundation.directory_documents,
        "directories": foundation.ldap_directories,
        "accounts": identity.accounts,
        "passwords": identity.account_passwords,
        "profiles": identity.profiles,
        "mfa": identity.mfa,
        "devices": identity.devices,
        "sessions": identity.sessions,
        "idp_logins": identity.idp_logins,
        "recorder": identity.connection_recorder,
        "own_issuer": settings.public_url,
        "hosts": settings.text_hosts,
        "auto_approve": settings.org_auto_approve,
        "heads": Es256HeadSigner(foundation.server_secrets),
        "keys": ConnectionKeys(RsaCertificates(), foundation.keyring, foundation.system),
        "surveys": DirectorySurveys(identity.connection_lookup, foundation.ldap_directories, foundation.keyring),
        "proofs": DomainProofs(
            foundation.unit_of_work,
            foundation.outbound,
            foundation.text_records,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=foundation.clock,
            text_hosts=settings.text_hosts,
        ),
    }
