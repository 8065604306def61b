"""A unit of work: one use case, one transaction. Leaving without `commit` rolls back. No mail, HTTP call or password hash happens while one
is open.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.events import Event
from ports.crypto import SigningKeyStore
from ports.federation.directory_runs import DirectoryPeopleStore, DirectoryRunStore
from ports.federation.oauth import (
    AuthorizationCodeStore,
    BackchannelRequestStore,
    ConsentStore,
    DeviceCodeStore,
    DocumentServiceStore,
    ExchangeStore,
    RegistrationKeyStore,
)
from ports.federation.provisioning import ProvisioningConnectionStore
from ports.federation.provisioning_runs import ProvisionedPeopleStore, ProvisioningRunStore
from ports.federation.saml import SamlStore
from ports.federation.scim import DirectoryTeamStore, ProvisionedUserStore, ScimTokenStore
from ports.federation.signals import SignalStore
from ports.identity.accounts import (
    AccountLockStore,
    AccountPasswordStore,
    AccountStore,
    MailBudgetStore,
    PictureStore,
    PrivacyStore,
    ProfileStore,
    TermsStore,
)
from ports.identity.sessions import BrowserSessionStore, ImpersonationStore, SessionStore
from ports.identity.sign_in import (
    DeviceStore,
    FlowStore,
    GuessStore,
    LoginEventStore,
    MailedTokenStore,
    MfaStore,
    PasskeyStore,
    ProviderOutageStore,
    SignInLinkStore,
    SignInStore,
)
from ports.identity.upstream import (
    ConnectionTestStore,
    DirectorySessionStore,
    FurtherProviderStore,
    IdentityAssertionStore,
    IdentityGrantStore,
    IdentityStore,
    IdpVerifiedAccountStore,
    NewcomerStore,
)
from ports.jobs import JobStore
from ports.platform import ImportStore, PlatformOwnerStore, ProposalStore, TextApprovalStore
from ports.services.billing import BillingStore, PlanStore, SubscriptionStore
from ports.services.services import (
    ApiKeyStore,
    AssignmentStore,
    ClientSecretStore,
    EndUserStore,
    ProxyStore,
    ResourceServerStore,
    ServiceClaimStore,
    ServicePermissionStore,
    ServiceRoleStore,
    ServiceStore,
    ServiceUserStore,
    UserKeyStore,
)
from ports.tenancy.connections import ConnectionRefreshStore, OAuthCredentialStore, SetupLinkStore, UpstreamProviderStore
from ports.tenancy.hooks import HookStore
from ports.tenancy.members import (
    InvitationStore,
    JoinRequestStore,
    ManagementKeyStore,
    MemberStore,
    OwnershipStore,
    RoleStore,
    TeamStore,
    TrustedIssuerStore,
)
from ports.tenancy.organizations import (
    DomainRouteStore,
    DomainStore,
    LookStore,
    MailServerStore,
    NoticeStore,
    OrganizationStore,
    OwnTextStore,
    ProfileFieldStore,
    ProfileValueStore,
    RiskPolicyStore,
    SignInRulesStore,
    SpokenLanguageStore,
)
from ports.tenancy.receivers import SiemStore, WebhookDeliveryStore, WebhookStore


class AskedStores(Protocol):
    """The stores that are also asked outside a unit of work."""

    mail_budgets: MailBudgetStore
    idp_verified_accounts: IdpVerifiedAccountStore
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
    hooks: HookStore
    webhook_deliveries: WebhookDeliveryStore
    setup_links: SetupLinkStore
    proposals: ProposalStore
    siem: SiemStore
    assignments: AssignmentStore
    client_secrets: ClientSecretStore
    permissions: ServicePermissionStore
    plans: PlanStore
    proxies: ProxyStore
    signals: SignalStore
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
    afar_requests: BackchannelRequestStore
    provisioned_users: ProvisionedUserStore
    directory_teams: DirectoryTeamStore
    directory_runs: DirectoryRunStore
    directory_people: DirectoryPeopleStore
    provisioning: ProvisioningConnectionStore
    provisioning_runs: ProvisioningRunStore
    provisioned_people: ProvisionedPeopleStore


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
