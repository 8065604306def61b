"""A unit of work: one use case, one transaction. Leaving without `commit` rolls back. No mail, HTTP call or password hash happens while one
is open.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.events import Event
from ports.federation.afar_requests import AfarRequestStore
from ports.federation.authorization_codes import AuthorizationCodeStore
from ports.federation.client_documents import DocumentServiceStore
from ports.federation.consents import ConsentStore
from ports.federation.device_flow import DeviceCodeStore
from ports.federation.directory_runs import DirectoryPeopleStore, DirectoryRunStore
from ports.federation.exchanges import ExchangeStore
from ports.federation.open_registrations import RegistrationKeyStore
from ports.federation.saml.configurations import SamlStore
from ports.federation.scim.teams import DirectoryTeamStore
from ports.federation.scim.tokens import ScimTokenStore
from ports.federation.scim.users import ProvisionedUserStore
from ports.identity.account_locks import AccountLockStore
from ports.identity.account_passwords import AccountPasswordStore
from ports.identity.accounts import AccountStore
from ports.identity.browser_sessions import BrowserSessionStore
from ports.identity.devices import DeviceStore
from ports.identity.flows import FlowStore
from ports.identity.guards.guesses import GuessStore
from ports.identity.impersonation import ImpersonationStore
from ports.identity.login_events import LoginEventStore
from ports.identity.mailed_tokens import MailedTokenStore
from ports.identity.mfa import MfaStore
from ports.identity.passkeys import PasskeyStore
from ports.identity.pictures import PictureStore
from ports.identity.privacy import PrivacyStore
from ports.identity.profiles import ProfileStore
from ports.identity.realms import ProviderOutageStore
from ports.identity.registering.mail_budgets import MailBudgetStore
from ports.identity.sessions import SessionStore
from ports.identity.sign_in import SignInStore
from ports.identity.sign_in_links import SignInLinkStore
from ports.identity.terms.terms import TermsStore
from ports.identity.upstream.connections import ConnectionTestStore, DirectorySessionStore
from ports.identity.upstream.further import FurtherProviderStore, NewcomerStore
from ports.identity.upstream.identities import IdentityStore
from ports.identity.upstream.identity_assertions import IdentityAssertionStore
from ports.identity.upstream.provider_tokens import IdentityGrantStore
from ports.identity.upstream.vouched_accounts import VouchedAccountStore
from ports.jobs import JobStore
from ports.platform.imports import ImportStore
from ports.platform.platform_owners import PlatformOwnerStore
from ports.platform.proposals import ProposalStore
from ports.platform.text_approvals import TextApprovalStore
from ports.services.api_keys import ApiKeyStore
from ports.services.assignments import AssignmentStore
from ports.services.billing import BillingStore
from ports.services.client_secrets import ClientSecretStore
from ports.services.end_users import EndUserStore
from ports.services.permissions import ServicePermissionStore
from ports.services.plans import PlanStore
from ports.services.proxies import ProxyStore
from ports.services.resource_servers import ResourceServerStore
from ports.services.service_claims import ServiceClaimStore
from ports.services.service_roles import ServiceRoleStore
from ports.services.service_users import ServiceUserStore
from ports.services.services import ServiceStore
from ports.services.subscriptions import SubscriptionStore
from ports.services.user_keys import UserKeyStore
from ports.signing_keys import SigningKeyStore
from ports.tenancy.branding import LookStore
from ports.tenancy.connection_refreshes import ConnectionRefreshStore
from ports.tenancy.domain_routes import DomainRouteStore
from ports.tenancy.domains import DomainStore
from ports.tenancy.invitations import InvitationStore
from ports.tenancy.join_requests import JoinRequestStore
from ports.tenancy.keys.management_keys import ManagementKeyStore
from ports.tenancy.keys.trusted_issuers import TrustedIssuerStore
from ports.tenancy.mail_servers import MailServerStore
from ports.tenancy.members import MemberStore, OwnershipStore
from ports.tenancy.oauth_credentials import OAuthCredentialStore
from ports.tenancy.organizations import OrganizationStore
from ports.tenancy.profile_fields import ProfileFieldStore
from ports.tenancy.profile_values import ProfileValueStore
from ports.tenancy.risk.risk_policies import RiskPolicyStore
from ports.tenancy.roles import RoleStore
from ports.tenancy.setup.setup_links import SetupLinkStore
from ports.tenancy.siem import SiemStore
from ports.tenancy.sign_in_rules import SignInRulesStore
from ports.tenancy.teams import TeamStore
from ports.tenancy.texts.notices import NoticeStore
from ports.tenancy.texts.own_texts import OwnTextStore
from ports.tenancy.texts.spoken_languages import SpokenLanguageStore
from ports.tenancy.upstream_providers import UpstreamProviderStore
from ports.tenancy.webhook_deliveries import WebhookDeliveryStore
from ports.tenancy.webhooks import WebhookStore


class AskedStores(Protocol):
    """The stores that are also asked outside a unit of work."""

    mail_budgets: MailBudgetStore
    vouched_accounts: VouchedAccountStore
    profiles: ProfileStore
    pictures: PictureStore
    flows: FlowStore
    terms: TermsStore
    login_events: LoginEventStore
    devices: DeviceStore
    passkeys: PasskeyStore
    identities: IdentityStore
    identity_grants: IdentityGrantStore
    privacy: PrivacyStore
    imports: ImportStore
    organizations: OrganizationStore
    members: MemberStore
    sign_in_rules: SignInRulesStore
    risk_policies: RiskPolicyStore
    profile_fields: ProfileFieldStore
    profile_values: ProfileValueStore
    roles: RoleStore
    teams: TeamStore
    mail_servers: MailServerStore
    looks: LookStore
    spoken_languages: SpokenLanguageStore
    own_texts: OwnTextStore
    text_approvals: TextApprovalStore
    notices: NoticeStore
    connection_refreshes: ConnectionRefreshStore
    domains: DomainStore
    domain_routes: DomainRouteStore
    join_requests: JoinRequestStore
    oauth_credentials: OAuthCredentialStore
    upstream_providers: UpstreamProviderStore
    further_providers: FurtherProviderStore
    newcomers: NewcomerStore
    webhooks: WebhookStore
    webhook_deliveries: WebhookDeliveryStore
    setup_links: SetupLinkStore
    proposals: ProposalStore
    siem: SiemStore
    assignments: AssignmentStore
    client_secrets: ClientSecretStore
    permissions: ServicePermissionStore
    plans: PlanStore
    proxies: ProxyStore
    trusted_issuers: TrustedIssuerStore
    resource_servers: ResourceServerStore
    service_roles: ServiceRoleStore
    service_claims: ServiceClaimStore
    service_users: ServiceUserStore
    services: ServiceStore
    subscriptions: SubscriptionStore
    user_keys: UserKeyStore
    invitations: InvitationStore
    end_users: EndUserStore
    authorization_codes: AuthorizationCodeStore
    document_services: DocumentServiceStore
    consents: ConsentStore
    exchanges: ExchangeStore
    device_codes: DeviceCodeStore
    afar_requests: AfarRequestStore
    provisioned_users: ProvisionedUserStore
    directory_teams: DirectoryTeamStore
    directory_runs: DirectoryRunStore
    directory_people: DirectoryPeopleStore


class UnitOfWork(AskedStores, Protocol):
    """Its stores speak to one transaction. Outside a unit of work, a use case asks stores of its own, each question by itself; the
    docstring of a store names the methods that may be called so. Only PostgreSQL implements it: tests run on a real database, because locks
    and races are what it is about.
    """

    accounts: AccountStore
    account_passwords: AccountPasswordStore
    account_locks: AccountLockStore
    sessions: SessionStore
    browser_sessions: BrowserSessionStore
    sign_ins: SignInStore
    guesses: GuessStore
    mfa: MfaStore
    sign_in_links: SignInLinkStore
    connection_tests: ConnectionTestStore
    directory_sessions: DirectorySessionStore
    identity_assertions: IdentityAssertionStore
    provider_outages: ProviderOutageStore
    mailed_tokens: MailedTokenStore
    impersonations: ImpersonationStore
    platform_owners: PlatformOwnerStore
    ownerships: OwnershipStore
    management_keys: ManagementKeyStore
    api_keys: ApiKeyStore
    billing: BillingStore
    scim_tokens: ScimTokenStore
    saml: SamlStore
    signing_keys: SigningKeyStore
    registration_keys: RegistrationKeyStore
    jobs: JobStore

    async def record(self, event: Event) -> AuditEntryId | None:
        """Write the event, its audit entry, and the jobs that follow from it. A change and its record are committed together or not at all.
        None when the event is not audited.
        """

    async def record_all(self, events: Sequence[Event]) -> None:
        """As `record` for many events at once, in as few statements as for one."""

    async def record_in_every_log(self, event: Event, person: UserId, *, listed: bool = False) -> None:
        """As `record` for an event of a person's account. Writes one entry into the platform's log, and one into the log of each
        organization that the person belongs to by their own act, even when the event names another organization. With `listed`,
        organizations that merely list the person get an entry, too. Takes no more statements than `record`, for any number of
        organizations. Only the organization that the event names is told where the act was done from. No organization reads the personal
        details.
        """

    async def commit(self) -> None: ...


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]
