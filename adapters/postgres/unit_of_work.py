"""The unit of work: one use case, one transaction, one connection of the pool."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar, cast

from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.federation.authorization_codes import AuthorizationCodeRows
from adapters.postgres.federation.clients import DocumentServiceRows, RegistrationKeyRows
from adapters.postgres.federation.consents import ConsentRows
from adapters.postgres.federation.directory_runs import DirectoryPeopleRows, DirectoryRunRows
from adapters.postgres.federation.given_sessions import ExchangeRows
from adapters.postgres.federation.polled_requests import BackchannelRequestRows, DeviceCodeRows
from adapters.postgres.federation.provisioning import ProvisioningConnectionRows
from adapters.postgres.federation.provisioning_runs import ProvisionedPeopleRows, ProvisioningRunRows
from adapters.postgres.federation.saml import SamlRows
from adapters.postgres.federation.scim.teams import DirectoryTeamRows
from adapters.postgres.federation.scim.tokens import ScimTokenRows
from adapters.postgres.federation.scim.users import ProvisionedUserRows
from adapters.postgres.federation.signals import SignalRows
from adapters.postgres.identity.accounts import AccountRows, PictureRows, ProfileRows
from adapters.postgres.identity.factors.mfa import DeviceRows, MfaRows
from adapters.postgres.identity.factors.passkeys import PasskeyRows
from adapters.postgres.identity.privacy.privacy import PrivacyRows
from adapters.postgres.identity.proofs.account_passwords import AccountLockRows, AccountPasswordRows, GuessRows
from adapters.postgres.identity.proofs.flows import FlowRows
from adapters.postgres.identity.proofs.login_events import LoginEventRows
from adapters.postgres.identity.proofs.mailed_tokens import MailedTokenRows, SignInLinkRows
from adapters.postgres.identity.proofs.sign_in import SignInRows
from adapters.postgres.identity.registering import MailBudgetRows
from adapters.postgres.identity.sessions.sessions import BrowserSessionRows, ImpersonationRows, SessionRows
from adapters.postgres.identity.sign_in_domains import ProviderOutageRows
from adapters.postgres.identity.terms import TermsRows
from adapters.postgres.identity.upstream.connections import ConnectionTestRows, DirectorySessionRows
from adapters.postgres.identity.upstream.identities import IdentityRows, IdpVerifiedAccountRows, NewcomerRows
from adapters.postgres.identity.upstream.providers import FurtherProviderRows, IdentityAssertionRows, IdentityGrantRows
from adapters.postgres.jobs import JobRows
from adapters.postgres.platform.configuration import ProposalRows
from adapters.postgres.platform.governance import TextApprovalRows
from adapters.postgres.platform.imports import ImportRows
from adapters.postgres.platform.platform_users import PlatformOwnerRows
from adapters.postgres.record.events import EventRows
from adapters.postgres.server_secrets import SigningKeyRows
from adapters.postgres.services.api_keys import ApiKeyRows, ClientSecretRows
from adapters.postgres.services.billing import BillingRows
from adapters.postgres.services.plans import PlanRows, SubscriptionRows
from adapters.postgres.services.resource_servers import ResourceServerRows
from adapters.postgres.services.service_roles import AssignmentRows, ServicePermissionRows, ServiceRoleRows
from adapters.postgres.services.service_users import EndUserRows, ServiceUserRows
from adapters.postgres.services.services import ProxyRows, ServiceClaimRows, ServiceRows
from adapters.postgres.services.user_keys import UserKeyRows
from adapters.postgres.statements import Statements, Transaction
from adapters.postgres.tenancy.branding import LookRows, NoticeRows, OwnTextRows, SpokenLanguageRows
from adapters.postgres.tenancy.domains import DomainRouteRows, DomainRows
from adapters.postgres.tenancy.hooks import HookRows
from adapters.postgres.tenancy.invitations import InvitationRows
from adapters.postgres.tenancy.join_requests import JoinRequestRows
from adapters.postgres.tenancy.management_keys import ManagementKeyRows, TrustedIssuerRows
from adapters.postgres.tenancy.members import MemberRows, OwnershipRows
from adapters.postgres.tenancy.organizations import MailServerRows, OrganizationRows, SignInRulesRows
from adapters.postgres.tenancy.profile_fields import ProfileFieldRows, ProfileValueRows
from adapters.postgres.tenancy.risk import RiskPolicyRows
from adapters.postgres.tenancy.roles import RoleRows, TeamRows
from adapters.postgres.tenancy.setup import SetupLinkRows
from adapters.postgres.tenancy.siem import SiemRows
from adapters.postgres.tenancy.upstream_providers import ConnectionRefreshRows, OAuthCredentialRows, UpstreamProviderRows
from adapters.postgres.tenancy.webhooks import WebhookDeliveryRows, WebhookRows
from core.domain.errors import OutcomeUnknown
from core.domain.identifiers import AuditEntryId, UserId
from core.domain.record.events import Event
from ports.crypto import KeyRing
from ports.jobs import Doorbell
from ports.system import Clock, Ids
from ports.unit_of_work import AskedStores, UnitOfWork, UnitOfWorkFactory

Store = TypeVar("Store")


class _Made:
    """A store, made at its first use: a unit of work needs only two or three stores."""

    def __init__(self, make: Callable[[Any], object]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, stores: "Stores", _owner: type) -> object:
        store = self._make(stores.statements)
        # From now on Python finds the attribute before this descriptor, which has no `__set__`.
        stores.__dict__[self._name] = store
        return store


def anywhere(make: Callable[[Statements | Transaction], Store]) -> Store:
    """A store that is also asked outside a unit of work. For the type checker it is the store, because it is one at its first use."""
    return cast("Store", _Made(make))


def inside(make: Callable[[Transaction], Store]) -> Store:
    """A store that only a unit of work has."""
    return cast("Store", _Made(make))


class Stores(AskedStores):
    """With `Statements`, they are asked outside a unit of work."""

    mail_budgets = anywhere(MailBudgetRows)
    idp_verified_accounts = anywhere(IdpVerifiedAccountRows)
    profiles = anywhere(ProfileRows)
    pictures = anywhere(PictureRows)
    flows = anywhere(FlowRows)
    terms = anywhere(TermsRows)
    passkeys = anywhere(PasskeyRows)
    identities = anywhere(IdentityRows)
    identity_grants = anywhere(IdentityGrantRows)
    login_events = anywhere(LoginEventRows)
    devices = anywhere(DeviceRows)
    privacy = anywhere(PrivacyRows)
    organizations = anywhere(OrganizationRows)
    members = anywhere(MemberRows)
    profile_fields = anywhere(ProfileFieldRows)
    profile_values = anywhere(ProfileValueRows)
    roles = anywhere(RoleRows)
    teams = anywhere(TeamRows)
    sign_in_rules = anywhere(SignInRulesRows)
    risk_policies = anywhere(RiskPolicyRows)
    mail_servers = anywhere(MailServerRows)
    looks = anywhere(LookRows)
    spoken_languages = anywhere(SpokenLanguageRows)
    own_texts = anywhere(OwnTextRows)
    text_approvals = anywhere(TextApprovalRows)
    notices = anywhere(NoticeRows)
    connection_refreshes = anywhere(ConnectionRefreshRows)
    domains = anywhere(DomainRows)
    domain_routes = anywhere(DomainRouteRows)
    join_requests = anywhere(JoinRequestRows)
    oauth_credentials = anywhere(OAuthCredentialRows)
    upstream_providers = anywhere(UpstreamProviderRows)
    further_providers = anywhere(FurtherProviderRows)
    newcomers = anywhere(NewcomerRows)
    webhooks = anywhere(WebhookRows)
    hooks = anywhere(HookRows)
    webhook_deliveries = anywhere(WebhookDeliveryRows)
    setup_links = anywhere(SetupLinkRows)
    proposals = anywhere(ProposalRows)
    siem = anywhere(SiemRows)
    assignments = anywhere(AssignmentRows)
    client_secrets = anywhere(ClientSecretRows)
    permissions = anywhere(ServicePermissionRows)
    plans = anywhere(PlanRows)
    proxies = anywhere(ProxyRows)
    signals = anywhere(SignalRows)
    resource_servers = anywhere(ResourceServerRows)
    trusted_issuers = anywhere(TrustedIssuerRows)
    service_roles = anywhere(ServiceRoleRows)
    service_claims = anywhere(ServiceClaimRows)
    service_users = anywhere(ServiceUserRows)
    services = anywhere(ServiceRows)
    subscriptions = anywhere(SubscriptionRows)
    user_keys = anywhere(UserKeyRows)
    imports = anywhere(ImportRows)
    invitations = anywhere(InvitationRows)
    end_users = anywhere(EndUserRows)
    authorization_codes = anywhere(AuthorizationCodeRows)
    exchanges = anywhere(ExchangeRows)
    device_codes = anywhere(DeviceCodeRows)
    afar_requests = anywhere(BackchannelRequestRows)
    consents = anywhere(ConsentRows)
    document_services = anywhere(DocumentServiceRows)
    provisioned_users = anywhere(ProvisionedUserRows)
    directory_teams = anywhere(DirectoryTeamRows)
    directory_runs = anywhere(DirectoryRunRows)
    directory_people = anywhere(DirectoryPeopleRows)
    provisioning = anywhere(ProvisioningConnectionRows)
    provisioning_runs = anywhere(ProvisioningRunRows)
    provisioned_people = anywhere(ProvisionedPeopleRows)

    def __init__(self, statements: Statements | Transaction) -> None:
        self.statements = statements


class PostgresUnitOfWork(Stores, UnitOfWork):
    """The stores that only a transaction has stand here, beside those of `Stores`."""

    statements: Transaction
    accounts = inside(AccountRows)
    account_passwords = inside(AccountPasswordRows)
    account_locks = inside(AccountLockRows)
    platform_owners = inside(PlatformOwnerRows)
    sessions = inside(SessionRows)
    browser_sessions = inside(BrowserSessionRows)
    sign_ins = inside(SignInRows)
    guesses = inside(GuessRows)
    sign_in_links = inside(SignInLinkRows)
    connection_tests = inside(ConnectionTestRows)
    directory_sessions = inside(DirectorySessionRows)
    identity_assertions = inside(IdentityAssertionRows)
    provider_outages = inside(ProviderOutageRows)
    mailed_tokens = inside(MailedTokenRows)
    impersonations = inside(ImpersonationRows)
    ownerships = inside(OwnershipRows)
    management_keys = inside(ManagementKeyRows)
    api_keys = inside(ApiKeyRows)
    billing = inside(BillingRows)
    scim_tokens = inside(ScimTokenRows)
    saml = inside(SamlRows)
    signing_keys = inside(SigningKeyRows)
    registration_keys = inside(RegistrationKeyRows)

    def __init__(self, transaction: Transaction, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> None:
        super().__init__(transaction)
        self._doorbell = doorbell
        self._events = EventRows(transaction, ids, clock)
        self.mfa = MfaRows(transaction, ids, clock)
        self.jobs = JobRows(transaction, ids, keyring)

    async def record(self, event: Event) -> AuditEntryId | None:
        return await self._events.record(event)

    async def record_all(self, events: Sequence[Event]) -> None:
        await self._events.record_all(events)

    async def record_in_every_log(self, event: Event, person: UserId, *, listed: bool = False) -> None:
        await self._events.record_in_every_log(event, person, listed=listed)

    async def commit(self) -> None:
        """Commit, shielded from cancellation, within a deadline. Afterwards the unit of work takes no further statements."""
        try:
            await self.statements.commit(notifies=not self._doorbell.reaches_others)
        except OutcomeUnknown:
            # If the commit took place, its work waits.
            self._ring()
            raise
        self._ring()

    def _ring(self) -> None:
        # The notification also reaches this process a little later. This second ring costs one look for work that finds nothing.
        for topic in self.statements.topics:
            self._doorbell.ring(topic)
        for topic in self.statements.topics_here:
            self._doorbell.ring_here(topic)


def unit_of_work(pool: Pool, ids: Ids, clock: Clock, keyring: KeyRing, doorbell: Doorbell) -> UnitOfWorkFactory:
    """Makes units of work on the pool's connections. Entering one raises `Overloaded` when no connection becomes free in time."""

    def open_unit_of_work() -> AbstractAsyncContextManager[UnitOfWork]:
        return _Opened(pool, lambda transaction: PostgresUnitOfWork(transaction, ids, clock, keyring, doorbell))

    return open_unit_of_work


class _Opened:
    """One unit of work, for the length of an `async with` block."""

    __slots__ = ("_lease", "_make", "_pipelined", "_transaction")

    def __init__(self, pool: Pool, make: Callable[[Transaction], UnitOfWork]) -> None:
        self._lease = pool.connection()
        self._make = make

    async def __aenter__(self) -> UnitOfWork:
        with translated():
            connection = await self._lease.__aenter__()
            try:
                # Entering sends nothing yet, and does not wait.
                self._pipelined = await connection.pipelined_transaction().__aenter__()
            except BaseException as error:
                await self._lease.__aexit__(type(error), error, None)
                raise
        self._transaction = Transaction(connection, self._pipelined)
        return self._make(self._transaction)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transaction.close()
        with translated():
            try:
                await self._pipelined.__aexit__(kind, error, trace)
            finally:
                await self._lease.__aexit__(kind, error, trace)
        # Translate the exception that ended the block into a refusal of the domain.
        translated().__exit__(kind, error, trace)
