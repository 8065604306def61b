"""Tenancy: organizations, their members, and what each member may do."""

import trio

from actors.presence import PresenceWriter
from adapters.crypto.heads import Es256HeadSigner
from adapters.postgres.identity.sessions.session_reach import PostgresSessionReach
from adapters.postgres.identity.upstream.directory_failures import PostgresDirectoryFailures
from adapters.postgres.record.deliveries import PostgresDeliveryQueue
from adapters.postgres.tenancy.callers import PostgresCallers
from adapters.postgres.tenancy.keys.machine_keys import PostgresKeyUse
from adapters.postgres.tenancy.keys.management_keys import MANAGEMENT_KEYS, PostgresManagementKeys
from adapters.postgres.tenancy.relations import PostgresRelations
from adapters.postgres.tenancy.setup.test_starters import PostgresTestStarters
from adapters.postgres.tenancy.siem_queue import PostgresSiemQueue
from adapters.postgres.tenancy.tiers import PostgresTiers
from adapters.postgres.tenancy.webhook_queue import WEBHOOKS
from adapters.saml.certificates import RsaCertificates
from adapters.turns import FairTurns
from core.domain.identifiers import ManagementKeyId
from core.domain.tenancy.webhook_deliveries import DueEvent
from core.frozen import Frozen
from core.usecases.identity.upstream.connection_keys import ConnectionKeys
from core.usecases.record.deliveries import Deliveries
from core.usecases.tenancy.access import AccessExplainer
from core.usecases.tenancy.branding import OrganizationBranding
from core.usecases.tenancy.callers import Callers
from core.usecases.tenancy.connections.answers import DirectoryAnswers
from core.usecases.tenancy.connections.failed_sign_ins import FailedDirectorySignIns
from core.usecases.tenancy.connections.lifecycle import Connections
from core.usecases.tenancy.connections.logouts import DirectoryLogouts
from core.usecases.tenancy.connections.metadata import DirectoryMetadataReader
from core.usecases.tenancy.connections.passwords import DirectoryPasswords
from core.usecases.tenancy.connections.refreshes import ConnectionRefreshes
from core.usecases.tenancy.connections.surveys import DirectorySurveys
from core.usecases.tenancy.connections.trials import ConnectionTests
from core.usecases.tenancy.domains.domain_proofs import DomainProofs
from core.usecases.tenancy.domains.domain_routes import DomainRoutes
from core.usecases.tenancy.domains.domains import Domains
from core.usecases.tenancy.invitations import Invitations
from core.usecases.tenancy.join_requests import JoinRequests
from core.usecases.tenancy.keys.key_tokens import KeyTokens
from core.usecases.tenancy.keys.management_keys import ManagementKeys
from core.usecases.tenancy.keys.trusted_issuers import TrustedIssuers
from core.usecases.tenancy.mail_servers import MailServers
from core.usecases.tenancy.member_factors import MemberFactors
from core.usecases.tenancy.members import Members
from core.usecases.tenancy.oauth_credentials import OrganizationOAuthCredentials
from core.usecases.tenancy.organizations import Organizations
from core.usecases.tenancy.ownerships import Ownerships
from core.usecases.tenancy.profile_fields import ProfileFields
from core.usecases.tenancy.profile_values import ProfileValues
from core.usecases.tenancy.risk.owner_notices import OwnerNotices
from core.usecases.tenancy.risk.risk_policies import RiskPoliciesOfKeepers
from core.usecases.tenancy.risk.ways_back import RiskWaysBack
from core.usecases.tenancy.roles import Roles
from core.usecases.tenancy.setup.activations import Activations
from core.usecases.tenancy.setup.connection_drafts import ConnectionDrafts
from core.usecases.tenancy.setup.domain_drafts import DomainDrafts
from core.usecases.tenancy.setup.scim_drafts import ScimDrafts
from core.usecases.tenancy.setup.setup_drafts import SetupDrafts
from core.usecases.tenancy.setup.setup_links import SetupLinks
from core.usecases.tenancy.setup.siem_drafts import SiemDrafts
from core.usecases.tenancy.siem import Siem
from core.usecases.tenancy.siem_export import SiemExport
from core.usecases.tenancy.sign_in_rules import OrganizationSignInRules
from core.usecases.tenancy.teams import Teams
from core.usecases.tenancy.terms.terms import TermsVersions
from core.usecases.tenancy.texts.mail_previews import MailPreviews
from core.usecases.tenancy.texts.notices import Notices
from core.usecases.tenancy.texts.own_texts import OwnTextChanges
from core.usecases.tenancy.texts.spoken_languages import OrganizationLanguages
from core.usecases.tenancy.upstream_providers import OrganizationUpstreamProviders
from core.usecases.tenancy.webhook_deliveries import WebhookDeliveries, WebhookReceivers
from core.usecases.tenancy.webhooks import Webhooks
from entrypoints.assembly.configured import installed_providers, with_client
from entrypoints.assembly.foundation import Foundation
from entrypoints.assembly.identity import Identity
from entrypoints.settings import Settings
from ports.tenancy.webhook_deliveries import ClaimedWebhook


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


def assemble_tenancy(settings: Settings, foundation: Foundation, identity: Identity, ownerships: Ownerships) -> Tenancy:
    new_unit_of_work, pool, stores = foundation.unit_of_work, foundation.pool, foundation.stores
    heads = Es256HeadSigner(foundation.server_secrets)
    system, clock, ids, sessions = foundation.system, foundation.clock, foundation.ids, identity.sessions
    key_presence: PresenceWriter[ManagementKeyId] = PresenceWriter(
        PostgresKeyUse(pool, MANAGEMENT_KEYS), foundation.metrics, spread=foundation.secrets.spread, name="management_key_presence"
    )
    management_keys = PostgresManagementKeys(pool)
    proofs = DomainProofs(
        new_unit_of_work,
        foundation.outbound,
        foundation.text_records,
        templates=foundation.mail_templates,
        metrics=foundation.metrics,
        clock=clock,
        text_hosts=settings.text_hosts,
    )
    connection_keys = ConnectionKeys(RsaCertificates(), foundation.keyring, system)
    directory_surveys = DirectorySurveys(identity.connection_lookup, foundation.ldap_directories, foundation.keyring)
    connection_tests = ConnectionTests(
        new_unit_of_work,
        identity.connection_lookup,
        PostgresTestStarters(pool),
        foundation.upstreams,
        identity.journeys,
        directory_surveys,
        identity.connection_recorder,
        keyring=foundation.keyring,
        server_secrets=foundation.server_secrets,
        metrics=foundation.metrics,
        system=system,
        base_url=settings.public_url,
    )
    directory_answers = DirectoryAnswers(
        identity.connection_lookup,
        connection_tests,
        foundation.directory_documents,
        identity.connection_recorder,
        keyring=foundation.keyring,
        server_secrets=foundation.server_secrets,
        metrics=foundation.metrics,
        system=system,
        base_url=settings.public_url,
    )
    siem = Siem(new_unit_of_work, stores.siem, foundation.outbound, foundation.keyring, heads, system=system)
    setup_lookup = stores.setup_links
    upstream_providers = OrganizationUpstreamProviders(
        new_unit_of_work,
        stores.upstream_providers,
        foundation.upstreams,
        foundation.directory_documents,
        connection_keys,
        foundation.keyring,
        system=system,
        own_issuer=settings.public_url,
    )
    connections = Connections(
        new_unit_of_work,
        identity.connection_lookup,
        foundation.directory_documents,
        foundation.outbound,
        connection_keys,
        keyring=foundation.keyring,
        clock=clock,
        base_url=settings.public_url,
    )
    profile_values = ProfileValues(new_unit_of_work, stores.profile_values, clock)
    return Tenancy(
        callers=Callers(foundation.token_verifier, PostgresCallers(pool), identity.presence, clock),
        organizations=Organizations(
            new_unit_of_work,
            stores.organizations,
            PostgresTiers(pool),
            sessions,
            auto_approve=settings.org_auto_approve,
            system=system,
        ),
        members=Members(new_unit_of_work, stores.members, sessions, identity.account_passwords, ownerships, clock=clock, turns=FairTurns()),
        ownerships=ownerships,
        member_factors=MemberFactors(new_unit_of_work, identity.mfa),
        invitations=Invitations(
            new_unit_of_work,
            stores.invitations,
            accounts=identity.accounts,
            passwords=identity.account_passwords,
            profiles=identity.profiles,
            templates=foundation.mail_templates,
            links=foundation.links,
            server_secrets=foundation.server_secrets,
            system=system,
        ),
        profile_fields=ProfileFields(new_unit_of_work, stores.profile_fields, system),
        profile_values=profile_values,
        roles=Roles(new_unit_of_work, stores.roles, system),
        teams=Teams(new_unit_of_work, stores.teams, system),
        risk_ways_back=RiskWaysBack(
            new_unit_of_work,
            foundation.keyring,
            foundation.shared_buckets,
            foundation.mail_templates,
            foundation.links,
            system,
        ),
        owner_notices=OwnerNotices(
            new_unit_of_work, stores.risk_policies, identity.devices, foundation.shared_buckets, foundation.mail_templates
        ),
        risk_policies=RiskPoliciesOfKeepers(
            new_unit_of_work, stores.risk_policies, identity.devices.locations, system, knows_countries=settings.geoip_database is not None
        ),
        sign_in_rules=OrganizationSignInRules(
            new_unit_of_work, stores.sign_in_rules, PostgresSessionReach(foundation.pool), foundation.email_syntax, clock
        ),
        terms=TermsVersions(new_unit_of_work, stores.terms, system),
        access=AccessExplainer(PostgresRelations(pool)),
        mail_servers=MailServers(
            new_unit_of_work,
            stores.mail_servers,
            foundation.organization_post,
            foundation.mail,
            keyring=foundation.keyring,
            syntax=foundation.email_syntax,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=clock,
            ids=ids,
        ),
        management_keys=ManagementKeys(new_unit_of_work, management_keys, key_presence, system=system),
        key_tokens=KeyTokens(
            management_keys,
            foundation.token_signer,
            foundation.token_verifier,
            key_presence,
            system=system,
            issuer=settings.public_url,
        ),
        trusted_issuers=TrustedIssuers(
            new_unit_of_work, stores.trusted_issuers, foundation.assertions, system=system, own_issuer=settings.public_url
        ),
        management_key_presence=key_presence,
        mail_previews=MailPreviews(new_unit_of_work, foundation.brandings, foundation.mail_templates, foundation.links, foundation.clock),
        notices=Notices(new_unit_of_work, stores.notices),
        own_texts=OwnTextChanges(new_unit_of_work, stores.own_texts, foundation.shipped_words, system, settings.text_hosts),
        branding=OrganizationBranding(new_unit_of_work, stores.looks, foundation.outbound, ids),
        spoken_languages=OrganizationLanguages(new_unit_of_work, stores.spoken_languages),
        domains=Domains(new_unit_of_work, stores.domains, proofs, system=system),
        domain_routes=DomainRoutes(
            new_unit_of_work,
            stores.domain_routes,
            proofs,
            system=system,
            configured=frozenset(with_client(installed_providers(settings))),
        ),
        join_requests=JoinRequests(new_unit_of_work, stores.join_requests, templates=foundation.mail_templates, system=system),
        oauth_credentials=OrganizationOAuthCredentials(new_unit_of_work, stores.oauth_credentials, foundation.keyring, system=system),
        upstream_providers=upstream_providers,
        connections=connections,
        connection_refreshes=ConnectionRefreshes(
            new_unit_of_work,
            stores.connection_refreshes,
            DirectoryMetadataReader(foundation.outbound, foundation.directory_documents),
            foundation.directory_documents,
            foundation.upstreams,
            templates=foundation.mail_templates,
            metrics=foundation.metrics,
            clock=clock,
            spread=foundation.secrets.spread,
            base_url=settings.public_url,
        ),
        connection_tests=connection_tests,
        directory_answers=directory_answers,
        directory_passwords=DirectoryPasswords(
            identity.connection_lookup,
            connection_tests,
            directory_surveys,
            foundation.ldap_directories,
            PostgresDirectoryFailures(pool),
            identity.journeys.outages,
            FailedDirectorySignIns(identity.journeys.lookup, identity.devices, identity.login_events, system),
            identity.connection_recorder,
            keyring=foundation.keyring,
            server_secrets=foundation.server_secrets,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
        directory_logouts=DirectoryLogouts(
            new_unit_of_work,
            identity.connection_lookup,
            foundation.directory_documents,
            directory_answers,
            identity.connection_recorder,
            metrics=foundation.metrics,
            system=system,
            base_url=settings.public_url,
        ),
        webhooks=Webhooks(
            new_unit_of_work,
            stores.webhooks,
            foundation.outbound,
            foundation.keyring,
            system=system,
        ),
        webhook_deliveries=WebhookDeliveries(new_unit_of_work, stores.webhook_deliveries, clock),
        deliveries=Deliveries(
            WebhookReceivers(new_unit_of_work, foundation.keyring, foundation.mail_templates, foundation.metrics, clock),
            PostgresDeliveryQueue(pool, WEBHOOKS),
            foundation.outbound,
            clock,
            foundation.secrets.spread,
        ),
        setup_links=SetupLinks(
            new_unit_of_work,
            setup_lookup,
            templates=foundation.mail_templates,
            links=foundation.links,
            system=system,
        ),
        setup_drafts=SetupDrafts(
            new_unit_of_work,
            setup_lookup,
            Activations(proofs, foundation.keyring, clock),
            templates=foundation.mail_templates,
            links=foundation.links,
            clock=clock,
        ),
        domain_drafts=DomainDrafts(new_unit_of_work, proofs, system=system),
        scim_drafts=ScimDrafts(new_unit_of_work, system=system),
        connection_drafts=ConnectionDrafts(
            new_unit_of_work, setup_lookup, upstream_providers, connections, connection_tests, system=system
        ),
        siem_drafts=SiemDrafts(new_unit_of_work, setup_lookup, siem, foundation.keyring, system=system),
        siem=siem,
        siem_export=SiemExport(
            PostgresSiemQueue(pool),
            foundation.outbound,
            foundation.keyring,
            heads,
            issuer=settings.public_url,
            metrics=foundation.metrics,
            clock=clock,
            spread=foundation.secrets.spread,
            breathe=trio.lowlevel.checkpoint,
        ),
    )
